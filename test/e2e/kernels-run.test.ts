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

  /** Runs `use` with one piece of a kernel replaced. */
  async function changed(name: string, text: string, replacement: string, use: () => Promise<void>): Promise<void> {
    const file = path.join(kernels, name);
    const source = readFileSync(file, 'utf8');
    expect(source.split(text), `${name} holds the text once`).toHaveLength(2);
    writeFileSync(file, source.replace(text, replacement));
    await build();
    await use();
    writeFileSync(file, source);
  }

  it('one line of attention_rows.hip changed changes the tokens', async () => {
    const text = 'return tile.position + query / tile.group;';
    const replacement = 'return max_of(0, tile.position + query / tile.group - 1);';
    await changed('attention_rows.hip', text, replacement, async () => {
      expect(await tokens('--kernels', output)).not.toEqual(await tokens());
    });
  });

  it('one line of forge/swiglu.h changed is refused by the self-test', async () => {
    await changed('forge/swiglu.h', 'element(to_float(gate[i]),', 'element(-to_float(gate[i]),', async () => {
      const refusal = expect.stringMatching(/KERNELS_INVALID: the self-test of swiglu/);
      await expect(tokens('--kernels', output)).rejects.toMatchObject({ stderr: refusal });
    });
  });

  it('without swiglu.hip the build fails and says so', async () => {
    rmSync(path.join(kernels, 'swiglu.hip'));
    await expect(build()).rejects.toMatchObject({ stderr: expect.stringContaining('swiglu.hip is missing') });
  });
});
