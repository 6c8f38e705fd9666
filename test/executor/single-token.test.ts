import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ModelShape } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import {
  COMBINED_SPLIT,
  FUSIONS,
  type Fusion,
  ROTATED_APPEND,
  SINGLE_TOKEN,
} from '../../src/executor/layers/fusions.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { isFull } from '../support/run-size.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const CONTEXT = 1200;

const WIDE = { hidden: 256, ffn: 256, vocabulary: 600, context: 2048, ropeBase: 10_000, tied: false } as const;
const qwen2 = {
  ...{ architecture: 'qwen2', preTokenizer: 'qwen2', heads: 4, kvHeads: 1, headDim: 64 },
  parts: { biases: ['attn_q', 'attn_k', 'attn_v'] },
} as const;
const qwen3 = {
  ...{ architecture: 'qwen3', preTokenizer: 'qwen2', heads: 2, kvHeads: 1, headDim: 128 },
  parts: { qkNorm: 'head' },
} as const;

/** Contexts of 1, 2 and 3 positions; around one split, two and eight. */
const BEHIND = [0, 126, 254, 1022];

/** Logits of a row behind each number of positions, and of two more, one row a step. */
async function logitsOf(file: string, kvCacheType: 'f16' | 'q8_0', without: readonly Fusion[]) {
  const device = openDevice({ kind: 'hip' });
  const limits = { maxContext: CONTEXT, maxSequences: 1, maxStepTokens: 256, kvMemoryBytes: 0, fingerprint: '' };
  const model = await loadModel(device, { ...limits, path: file, kvCacheType, without }, () => undefined);
  const driver = new StepDriver(device, model, 1n);
  let opens: (readonly [number, Uint32Array])[] = [[0, promptOf(0, CONTEXT, 500)]];
  const logits: unknown[] = [];
  let at = 0;
  const step = async (count: number, isSampled: boolean) => {
    const made = await driver.step([[0, at, count, isSampled]], opens);
    opens = [];
    at += count;
    return made;
  };
  for (const first of BEHIND) {
    while (at < first) await step(Math.min(256, first - at), false);
    for (let row = 0; row < 3; row++) logits.push(await step(1, true));
  }
  const { kernels } = model.forward;
  model.release();
  return { logits, kernels };
}

describe.skipIf(missing !== undefined)('steps of one row', () => {
  beforeAll(() => new HipDouble().install());

  it.each([
    ...(isFull
      ? ([
          ['F16', qwen2, 'f16'],
          ['BF16', qwen3, 'f16'],
          ['Q8_0', qwen3, 'f16'],
        ] as const)
      : []),
    ['F16', qwen3, 'q8_0'],
    // The third layer has v, and down, in another type.
    ['Q4_K_M', qwen2, 'f16'],
  ] as const)('give the bits of launches apart: %s', { timeout: 600_000 }, async (type, family, cache) => {
    const file = path.join(folder, `${type}-${cache}.gguf`);
    const layers = type === 'Q4_K_M' ? 3 : 1;
    synth({ shape: { ...WIDE, ...family, layers } as ModelShape, type, output: file });
    const together = await logitsOf(file, cache, []);
    expect(together.kernels.filter((name) => name.startsWith('attention_tile_combine'))).not.toEqual([]);
    // Rows are stored in q8_0 by what turns them, and by no other kernel of a package.
    const all = cache === 'q8_0' ? FUSIONS.filter((rule) => rule !== ROTATED_APPEND) : FUSIONS;
    for (const without of [[COMBINED_SPLIT], [COMBINED_SPLIT, SINGLE_TOKEN], all]) {
      const apart = await logitsOf(file, cache, without);
      expect(apart.kernels.filter((name) => name.startsWith('attention_tile_combine'))).toEqual([]);
      expect(apart.logits).toEqual(together.logits);
    }
  });
});
