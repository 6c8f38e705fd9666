import { mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';

/** A program that has the package, as it is built, for a dependency. */
function project(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(packageRoot, path.join(folder, 'node_modules', 'rocmforge'));
  for (const [name, text] of Object.entries(files)) writeFileSync(path.join(folder, name), text);
  return folder;
}

const PROGRAM = `
import { RocmForgeClient, RocmForgeClientError, type GenerateStreamEvent } from 'rocmforge/client';

const client = new RocmForgeClient(process.argv[2] ?? '');
const input = { $case: 'text', value: { text: 'the fox' } } as const;
let ids: number[] = [];
const look = (event: GenerateStreamEvent) => {
  if (event.$case === 'chunk') ids = ids.concat(event.value.tokenIds);
};
for await (const event of client.generateStream({ input, stop: { maxTokens: 3, ignoreEos: true } })) look(event);
try {
  await client.generate({ input, sampling: { topP: 2 } });
} catch (error) {
  if (!(error instanceof RocmForgeClientError)) throw error;
  console.log(ids.length, error.code, error.reason, error.field);
}
client.close();
`;

describe('a program that installed the package', () => {
  let server: FakeGateway;
  beforeAll(async () => {
    server = await startFakeGateway();
  });
  afterAll(() => server?.stop());

  it('is checked against the client’s types, and runs with it', async () => {
    const folder = project({ 'program.mts': PROGRAM, 'package.json': '{ "type": "module" }' });
    const types = path.join(packageRoot, 'node_modules', '@types');
    const compiled = await runProgram(process.execPath, [
      path.join(packageRoot, 'node_modules', 'typescript', 'bin', 'tsc'),
      '--ignoreConfig',
      ...['--strict', '--target', 'es2022', '--module', 'nodenext', '--typeRoots', types, '--types', 'node'],
      path.join(folder, 'program.mts'),
    ]);
    expect(compiled).toMatchObject({ code: 0, stdout: '' });
    const ended = await runProgram(process.execPath, [path.join(folder, 'program.mjs'), server.address]);
    expect(ended).toEqual({ code: 0, stdout: '3 INVALID_ARGUMENT INVALID_FIELD sampling.top_p\n', stderr: '' });
  });

  it('runs the example that reads the .proto files at run time', async () => {
    const example = path.join(packageRoot, 'examples', 'node', 'dynamic.mjs');
    const ended = await runProgram(process.execPath, [example, server.address, 'the fox']);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(/\nFINISH_REASON_(LENGTH|STOP): \d+ tokens\n$/);
  });

  it('finds the .proto files, and nothing of the inside', async () => {
    const folder = project({
      'look.mjs': `
        import { existsSync } from 'node:fs';
        import { fileURLToPath } from 'node:url';
        const found = (name) => existsSync(fileURLToPath(import.meta.resolve(name)));
        console.log(found('rocmforge/proto/rocmforge/v1/inference.proto'), found('rocmforge/package.json'));
        for (const name of ['rocmforge', 'rocmforge/dist/gateway/main.js']) {
          await import(name).catch(({ code }) => console.log(code));
        }
      `,
    });
    const { stdout } = await runProgram(process.execPath, [path.join(folder, 'look.mjs')]);
    expect(stdout.trim().split('\n')).toEqual([
      'true true',
      'ERR_PACKAGE_PATH_NOT_EXPORTED',
      'ERR_PACKAGE_PATH_NOT_EXPORTED',
    ]);
  });
});
