import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { formatInspectReport, inspectModel } from '../../src/cli/inspect/inspect.js';
import { typed } from '../support/gguf-builder.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { randomModel } from '../support/random-model.js';
import type { RandomModelOptions } from '../support/random-model-options.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

function inspect(options: RandomModelOptions, tensors: Readonly<Record<string, readonly number[]>> = {}) {
  const builder = randomModel({ seed: 7, layers: 4, ...options });
  for (const [name, values] of Object.entries(tensors)) {
    builder.tensor(name, {
      type: 'F32',
      dims: [values.length],
      data: new Uint8Array(Float32Array.from(values).buffer),
    });
  }
  const file = path.join(folder, 'rope.gguf');
  writeFileSync(file, builder.build());
  return inspectModel(file);
}

/** Lines next to `rope`. */
function ropeLines(...model: Parameters<typeof inspect>): string[] {
  const lines = formatInspectReport(inspect(...model)).split('\n');
  const first = lines.findIndex((line) => line.startsWith('rope '));
  const last = lines.findIndex((line) => line.startsWith('vocabulary '));
  return lines.slice(first, last).map((line) => line.replace(/^(rope)? +/, ''));
}

const YARN = 'yarn × 4, beta_fast 32, beta_slow 1, ext_factor 1, log_mul 0, original context 64';

describe('inspect tells how each kind of layers turns queries and keys', () => {
  it.each<[RandomFamilyName, readonly string[]]>([
    ['llama', ['16 dims in adjacent pairs, base 10000']],
    ['qwen3', ['16 dims in pairs of halves, base 10000']],
    ['chatglm', ['8 dims in adjacent pairs, base 10000']],
    // 1 + 0.1 ln 4
    ['llama-yarn', [`16 dims in adjacent pairs, base 10000, ${YARN}, attention factor 1.13863`]],
    [
      'gemma2',
      [
        'layers 0, 2: 32 dims in pairs of halves, base 10000, window 24',
        'layers 1, 3: 32 dims in pairs of halves, base 10000',
      ],
    ],
    [
      'gemma3',
      [
        'layers 0-4, 6: 32 dims in pairs of halves, base 10000, window 24',
        'layer 5: 32 dims in pairs of halves, base 1000000, linear × 8',
      ],
    ],
    [
      'olmo2',
      [
        'layers 0-2: 16 dims in pairs of halves, base 10000, window 24',
        `layer 3: 16 dims in pairs of halves, base 10000, ${YARN}, attention factor 1.13863`,
      ],
    ],
    ['smollm3', ['layers 0-2: 16 dims in adjacent pairs, base 10000', 'layer 3: no RoPE']],
    [
      'mistral3',
      [
        // (1 + 0.1 ln 4) / (1 + 0.1 · 0.7 ln 4)
        `16 dims in adjacent pairs, base 10000, ${YARN.replace('32', '24').replace('slow 1', 'slow 2').replace('mul 0', 'mul 0.7')}, ` +
          'attention factor 1.03791, queries × 1 + 0.3 ln(1 + ⌊position / 64⌋)',
      ],
    ],
  ])('%s', (family, lines) => {
    expect(ropeLines({ family, layers: family === 'gemma3' ? 7 : 4 })).toEqual(lines);
  });

  it('Llama 3.1’s table of divisors, with its numbers as JSON', () => {
    const table = [1, 1, 1, 1.5, 4, 8, 8, 8];
    const model = [{}, { 'rope_freqs.weight': table }] as const;
    expect(ropeLines(...model)).toEqual([
      '16 dims in adjacent pairs, base 10000',
      'rope_freqs.weight: 8 factors from 1 to 8',
    ]);
    expect(inspect(...model).ropes).toMatchObject([
      { scaling: 'factors', tables: [{ values: table, contextAbove: null, contextUpTo: null }] },
    ]);
  });

  it('longrope’s two tables, the one first that is served by default', () => {
    const lines = (contextLength: number) => ropeLines({ family: 'phi3', contextLength });
    const rotated = '96 dims in pairs of halves, base 10000, longrope, attention factor 1.19';
    const short = /^rope_factors_short\.weight: 48 factors from 1\.\d+ to 1\.\d+, for contexts up to 64 tokens/;
    const long = /^rope_factors_long\.weight: 48 factors from 2\.\d+ to 3\.\d+, for contexts over 64 tokens/;
    const [whole, cut] = [lines(512), lines(64)];
    expect(whole).toEqual([rotated, expect.stringMatching(long), expect.stringMatching(short)]);
    expect(cut).toEqual([rotated, expect.stringMatching(short), expect.stringMatching(long)]);
    for (const [, first, second] of [whole, cut]) {
      expect(first).toMatch(/, served by default$/);
      expect(second).not.toContain('default');
    }
  });

  it('layers that share keys and values once', () => {
    const { ropes } = inspect({ family: 'gemma4', layers: 8 });
    expect(ropes.map(({ layers }) => layers)).toEqual([
      [0, 2],
      [1, 3],
    ]);
  });

  it('granite that was trained without positions', () => {
    const metadata = { 'granite.rope.scaling.finetuned': false };
    expect(ropeLines({ family: 'granite', metadata })).toEqual(['no RoPE']);
  });

  it('what the keys say, where the model cannot run', () => {
    const metadata = {
      'general.architecture': 'starcoder',
      'starcoder.context_length': 512,
      'starcoder.embedding_length': 64,
      'starcoder.block_count': 4,
      'starcoder.feed_forward_length': 128,
      'starcoder.attention.head_count': 4,
      'starcoder.attention.layer_norm_rms_epsilon': typed.f32(1e-5),
      'starcoder.rope.freq_base': typed.f32(5000),
    };
    expect(inspect({ metadata }).ropes).toEqual([]);
    expect(ropeLines({ metadata })[0]).toBe('16 dims, base 5000');
  });
});

it('inspect tells what an executor would refuse for its tensors', () => {
  expect(inspect({ layers: 1, tensors: { 'blk.0.attn_sinks.weight': { dims: [4] } } }).problem).toMatch(
    /nothing here uses tensor blk\.0\.attn_sinks\.weight/,
  );
});

it('inspect tells of layers with states how many there are, and what their states take', () => {
  const report = inspect({ family: 'qwen35', layers: 8 });
  // 6 layers of 4 heads of 32 · 32 and 3 rows of 256 channels, in f32.
  const stateBytes = 6 * 4 * (4 * 32 * 32 + 3 * 256);
  const heads = { heads: 4, dim: 32, columns: 32 };
  expect(report.recurrent).toEqual({ layers: 6, attentionLayers: 2, ...heads, taps: null, stateBytes });
  expect(formatInspectReport(report)).toMatch(
    /^recurrent +6 layers of 4 heads of 32 × 32, 2 attend; 228\.0 KiB of states a sequence, 114\.0 KiB a snapshot$/m,
  );
  expect(inspect({ family: 'llama' }).recurrent).toBeNull();
});
