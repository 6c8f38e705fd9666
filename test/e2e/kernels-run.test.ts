import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { writeRandomModel } from '../support/random-model.js';

const run = promisify(execFile);

describe('kernels/*.hip is what runs', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const kernels = path.join(folder, 'kernels');
  const output = path.join(folder, 'build');
  const model = writeRandomModel();
  beforeAll(() => cpSync(path.join(packageRoot, 'kernels'), kernels, { recursive: true }));

  const build = () =>
    run(process.execPath, [
      path.join(packageRoot, 'tools', 'build-kernels.mjs'),
      ...['--target', 'host', '--native', '--kernels', kernels, '--output', output],
    ]);
  const tokens = async (...options: string[]) => {
    const { stdout } = await run(process.execPath, [
      path.join(packageRoot, 'dist', 'cli', 'main.js'),
      ...['generate', '--model', model, '--prompt', 'the fox', '--max-tokens', '16', '--temperature', '0', '--json'],
      ...options,
    ]);
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { token_ids?: number[] });
    return lines.flatMap((line) => line.token_ids ?? []);
  };

  it('one line of swiglu.hip changed changes the tokens', { timeout: 180_000 }, async () => {
    const file = path.join(kernels, 'swiglu.hip');
    const source = readFileSync(file, 'utf8');
    const changed = source.replace('silu(to_float(gate[i]))', 'silu(-to_float(gate[i]))');
    expect(changed).not.toBe(source);
    writeFileSync(file, changed);
    await build();
    expect(await tokens('--kernels', output)).not.toEqual(await tokens());
    writeFileSync(file, source);
  });

  it('without swiglu.hip the build fails and says so', async () => {
    rmSync(path.join(kernels, 'swiglu.hip'));
    await expect(build()).rejects.toMatchObject({ stderr: expect.stringContaining('swiglu.hip is missing') });
  });
});
