import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { Layers } from '../../src/executor/models/family.js';
import { packageRoot } from '../../src/shared/package.js';
import { sharedPath } from '../support/shared-data.js';
import { BOUNDS } from './support/parity-bounds.js';

/** Three cases are enough: a mistake shows in each of them. */
async function deviationOf(name: keyof typeof BOUNDS, kernels?: string) {
  const [model, parity] = [`${BOUNDS[name].model}.gguf`, `${name}.json`];
  const cases = readParityCases(sharedPath(`data/parity/${parity}`)!).slice(0, 3);
  return teacherForced(sharedPath(`data/models/${model}`)!, cases, kernels === undefined ? {} : { kernels });
}

/** Builds kernels/ for this machine with one piece of one file replaced. @returns the folder of the built kernels */
async function buildMutated(file: string, text: string, replacement: string): Promise<string> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const [kernels, output] = [path.join(folder, 'kernels'), path.join(folder, 'build')];
  cpSync(path.join(packageRoot, 'kernels'), kernels, { recursive: true });
  const mutated = path.join(kernels, file);
  const source = readFileSync(mutated, 'utf8');
  expect(source.split(text), `${file} holds the text once`).toHaveLength(2);
  writeFileSync(mutated, source.replace(text, replacement));
  const script = path.join(packageRoot, 'tools', 'build-kernels.mjs');
  const build = ['--target', 'host', '--native', '--kernels', kernels, '--output', output];
  await promisify(execFile)(process.execPath, [script, ...build]);
  return output;
}

const hasData = Object.entries(BOUNDS).every(
  ([name, { model }]) => sharedPath(`data/models/${model}.gguf`) && sharedPath(`data/parity/${name}.json`),
);

describe.skipIf(!hasData)('the parity test fails', () => {
  afterEach(() => void vi.restoreAllMocks());

  it.each(['tiny-qwen2-q8_0', 'tiny-llama-q4_k_m'] as const)('when RoPE turns the other pairs (%s)', async (name) => {
    const { rope } = Layers.prototype;
    vi.spyOn(Layers.prototype, 'rope').mockImplementation(function (this: Layers, pairing) {
      return rope.call(this, pairing === 'neox' ? 'interleaved' : 'neox');
    });
    expect((await deviationOf(name)).mean).toBeGreaterThan(BOUNDS[name].mean);
  });

  it('when the bias of q, k and v is dropped', async () => {
    const { linear } = Layers.prototype;
    vi.spyOn(Layers.prototype, 'linear').mockImplementation(function (this: Layers, weights, of) {
      return linear.call(this, weights, of);
    });
    expect((await deviationOf('tiny-qwen2-q8_0')).mean).toBeGreaterThan(BOUNDS['tiny-qwen2-q8_0'].mean);
  });

  it('when a token does not see itself', async () => {
    const kernels = await buildMutated(
      'attention_rows.hip',
      'return tile.position + query / tile.group;',
      'return max_of(0, tile.position + query / tile.group - 1);',
    );
    expect((await deviationOf('tiny-qwen2-q8_0', kernels)).mean).toBeGreaterThan(BOUNDS['tiny-qwen2-q8_0'].mean);
  });

  it('when one sub-block of Q4_K has the top bits of its scale wrong', async () => {
    const kernels = await buildMutated(
      'forge/host_blocks.h',
      '(last & 0x0f0f0f0fu) | (first >> 2 & 0x30303030u)',
      '(last & 0x0f0f0f0fu) | (first >> 2 & 0x30303000u)',
    );
    expect((await deviationOf('tiny-llama-q4_k_m', kernels)).mean).toBeGreaterThan(BOUNDS['tiny-llama-q4_k_m'].mean);
  });
});
