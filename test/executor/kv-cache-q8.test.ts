import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { besideHost } from '../../src/cli/verify/beside-host.js';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import { type Slice, StepDriver } from '../../src/cli/verify/step-driver.js';
import { type ParityCase, readParityCases } from '../../src/cli/verify/teacher-forced.js';
import type { KvCacheType } from '../../src/executor/kernels/index.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import { packageRoot } from '../../src/shared/package.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';
import { isQuick } from '../support/run-size.js';

const host = openDevice({ kind: 'host' });
const load = (file: string, options: Partial<LoadOptions> = {}, device = host) =>
  loadModel(
    device,
    {
      path: file,
      kvCacheType: 'q8_0',
      maxContext: 320,
      maxSequences: 17,
      maxStepTokens: 1000,
      kvMemoryBytes: 0,
      fingerprint: '',
      ...options,
    },
    () => undefined,
  );

/** Models of a family with heads of 16 elements, and of one with heads of 64: on a GPU in tiles, and split. */
const tiled = () => writeRandomModel({ type: 'F16', headDim: 64 });

describe('a KV cache in q8_0', () => {
  it('takes 17/32 of the memory that f16 takes', async () => {
    const file = tiled();
    const bytes = async (kvCacheType: KvCacheType) => {
      const model = await load(file, { kvCacheType });
      model.release();
      return model.forward.cache.bytes;
    };
    expect(await bytes('q8_0')).toBe((await bytes('f16')) * (17 / 32));
    expect(kvBlockBytes(Array(32).fill({ kvHeads: 8, headDim: 128 }), 'q8_0') / 16).toBe(69_632);
  });

  it.each([
    ['llama with heads of 64', tiled, 64],
    ['gemma2, with windows and softcaps', () => writeRandomFamily('gemma2'), 32],
    ['gemma3, with windows', () => writeRandomFamily('gemma3'), 32],
    ['phi3', () => writeRandomFamily('phi3'), 96],
  ] as const)('gives one hash of logits alone, in chunks and among 16: %s', async (_name, write, headDim) => {
    const model = await load(write());
    try {
      expect(model.forward.kernels).toContain(`attention_rows_q8_0_d${headDim}`);
      const alone = await logitsHashes(host, model, INVARIANCE_PROMPT);
      expect(new Set(alone).size).toBe(4);
      for (const chunk of [1, 17]) expect(await logitsHashes(host, model, chunk), `chunks of ${chunk}`).toEqual(alone);
      expect(await logitsHashes(host, model, INVARIANCE_PROMPT, 16)).toEqual(alone);
      expect(await logitsHashes(host, model, 100, 16)).toEqual(alone);
    } finally {
      model.release();
    }
  });

  it('is refused for heads that are no whole groups of 32, by family and size, naming what is possible', async () => {
    await expect(load(writeRandomFamily('qwen3'))).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message:
        'this qwen3 has heads of 16 elements; a KV cache in q8_0 holds heads of 32, 64, 96, 128, 160, 192, 256, 512, 576: take f16 or f32',
      metadata: { option: 'kv-cache-type' },
    });
  });

  it('is refused where attention is written out', async () => {
    await expect(load(tiled(), { attention: 'unfused' })).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message: 'unfused attention reads no KV cache in q8_0: take f16 or f32',
    });
  });
});

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

// The simulated device is too slow for the quick tier.
describe.skipIf(missing !== undefined || isQuick)('a KV cache in q8_0 on a HIP device', () => {
  beforeAll(() => new HipDouble().install());

  it.each([
    ['in tiles and split', tiled, 'attention_tile_split_q8_0_d64'],
    ['row by row', () => writeRandomFamily('gemma2', { type: 'F16', layers: 2 }), 'attention_paged_q8_0_d32'],
  ] as const)('%s: one hash of logits, which are the host’s', { timeout: 600_000 }, async (_name, write, kernel) => {
    const [device, file] = [openDevice({ kind: 'hip' }), write()];
    const { relative, bound } = await besideHost(device, file, { kvCacheType: 'q8_0' });
    expect(relative).toBeLessThanOrEqual(bound);
    const model = await load(file, { maxSequences: 5, maxStepTokens: 500 }, device);
    try {
      expect(model.forward.kernels).toContain(kernel);
      const alone = await logitsHashes(device, model, INVARIANCE_PROMPT);
      expect(new Set(alone).size).toBe(4);
      expect(await logitsHashes(device, model, 60, 4)).toEqual(alone);
    } finally {
      model.release();
    }
  });
});

/** Each case's tokens, all cases side by side: the log probabilities after each, `[steps, cases, vocabulary]`. */
async function logProbabilities(file: string, cases: readonly ParityCase[], kvCacheType: KvCacheType) {
  const rows = cases.reduce((sum, { prompt_tokens }) => sum + prompt_tokens.length, 0);
  const model = await load(file, { kvCacheType, maxSequences: cases.length, maxStepTokens: rows });
  const driver = new StepDriver(host, model, 1n);
  const steps: Float64Array[][] = [];
  for (let step = 0; step < cases[0]!.tokens.length; step++) {
    const slices = cases.map(({ prompt_tokens: { length } }, slot): Slice => {
      return step === 0 ? [slot, 0, length, true] : [slot, length + step - 1, 1, true];
    });
    const opens = cases.map((one, slot) => [slot, Uint32Array.from([...one.prompt_tokens, ...one.tokens])] as const);
    const logits = await driver.step(slices, step === 0 ? opens : []);
    steps.push(
      logits.map((row) => {
        const largest = row.reduce((a, b) => Math.max(a, b));
        const logSum = largest + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
        return Float64Array.from(row, (logit) => logit - logSum);
      }),
    );
  }
  model.release();
  return steps;
}

/** Indices of the largest numbers, the largest first. */
const largestOf = (row: Float64Array, count: number): number[] =>
  [...row.keys()].sort((a, b) => row[b]! - row[a]!).slice(0, count);

function variance(row: Float64Array): number {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  return row.reduce((sum, value) => sum + (value - mean) ** 2, 0) / row.length;
}

/**
 * Error of rounding to int8. A step is a 127th of the largest of 32 normal numbers, some 2.3 of their deviations, and
 * rounding is off by a step / √12. Keys and values of each layer are rounded: the root of 2 · layers such errors, of logits
 * whose deviation is `spread`.
 */
const roundingOf = (layers: number, spread: number): number =>
  (spread * Math.sqrt(2 * layers) * 2.3) / 127 / Math.sqrt(12);

/** Largest of a thousand normal numbers, in their deviations. */
const LARGEST = 3.5;

describe('log probabilities with a KV cache in q8_0 beside those with one in f16, fed the same tokens', () => {
  it.each([
    ['the demo model', () => path.join(packageRoot, 'models', 'demo.gguf'), ['demo-parity.json'], 7],
    ['a random gemma3', () => writeRandomFamily('gemma3'), ['families', 'gemma3.json'], 7],
    ['a random phi3', () => writeRandomFamily('phi3'), ['families', 'phi3.json'], 4],
  ] as const)('%s', async (name, write, names, layers) => {
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', ...names));
    const file = write();
    const [f16, q8] = [await logProbabilities(file, cases, 'f16'), await logProbabilities(file, cases, 'q8_0')];
    const pairs = f16.flatMap((rows, step) => rows.map((row, i) => [row, q8[step]![i]!] as const));
    const differences = pairs.flatMap(([row, other]) => largestOf(row, 5).map((id) => Math.abs(row[id]! - other[id]!)));
    const mean = differences.reduce((sum, difference) => sum + difference, 0) / differences.length;
    const largest = Math.max(...differences);
    const same = pairs.filter(([row, other]) => largestOf(row, 1)[0] === largestOf(other, 1)[0]).length;
    const rounding = roundingOf(layers, Math.sqrt(pairs.reduce((sum, [row]) => sum + variance(row), 0) / pairs.length));
    console.log(
      `${name}: mean ${mean.toExponential(1)}, largest ${largest.toExponential(1)} of ${differences.length}; the likeliest ` +
        `token is the same in ${same} of ${pairs.length}; rounding amounts to ${rounding.toExponential(1)}`,
    );
    expect(mean).toBeGreaterThan(0);
    expect(mean).toBeLessThanOrEqual(rounding);
    // Logits of unlikely tokens of a trained model are small differences of large numbers; its choices are not.
    if (name === 'the demo model') expect(same).toBe(pairs.length);
    else expect(largest).toBeLessThanOrEqual(LARGEST * rounding);
  });
});
