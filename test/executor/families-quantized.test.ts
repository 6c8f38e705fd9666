import { describe, expect, it } from 'vitest';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { llamaCases } from '../support/family-answers.js';
import { float64Forward } from '../support/float64-forward.js';
import { FAMILY_QUANTIZATIONS, writeQuantizedFamily } from '../support/quantized-family.js';
import {
  COVERING_FAMILIES,
  RANDOM_ALIAS_NAMES,
  RANDOM_FAMILIES,
  RANDOM_FAMILY_NAMES,
  type RandomFamilyName,
} from '../support/random-families.js';
import type { RandomFamily } from '../support/random-family.js';
import { layersOf } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

const device = openDevice({ kind: 'host' });
const load = (file: string, options: Pick<LoadOptions, 'kvCacheType' | 'maxSequences' | 'maxStepTokens'>) =>
  loadModel(device, { path: file, maxContext: 320, kvMemoryBytes: 0, fingerprint: '', ...options }, () => {});

const each = (isFull ? [...RANDOM_FAMILY_NAMES, ...RANDOM_ALIAS_NAMES] : COVERING_FAMILIES).flatMap((family) =>
  // Every type for one family, and one type for the others: their code is the same for all families.
  FAMILY_QUANTIZATIONS.filter((weights) => isFull || family === 'llama' || weights === 'Q4_K_M').map(
    (weights) => [family, weights] as const,
  ),
);

const files = new Map<string, string>();
function fileOf(...model: Parameters<typeof writeQuantizedFamily>): string {
  const name = model.join();
  const file = files.get(name) ?? writeQuantizedFamily(...model);
  files.set(name, file);
  return file;
}

/** Past every window and the context that RoPE was trained for, in tokens; and those that are fed after them. */
const [PROMPT, FED] = [72, 8];
function sequenceOf(family: RandomFamilyName): readonly number[] {
  const { prompt_tokens } = llamaCases(family).reduce((a, b) =>
    a.prompt_tokens.length > b.prompt_tokens.length ? a : b,
  );
  return prompt_tokens.slice(0, PROMPT + FED);
}

/** Logits after the prompt and after each token behind it. */
async function logitsOf(file: string, tokens: readonly number[]): Promise<Float32Array[]> {
  const model = await load(file, { kvCacheType: 'f32', maxSequences: 1, maxStepTokens: PROMPT });
  const driver = new StepDriver(device, model, 1n);
  const rows = (await driver.step([[0, 0, PROMPT, true]], [[0, Uint32Array.from(tokens)]])).map((row) => row.slice());
  for (let at = PROMPT; at < tokens.length; at++) {
    const [row] = await driver.step([[0, at, 1, true]]);
    rows.push(row!.slice());
  }
  model.release();
  return rows;
}

/** A row's difference from the reference, root mean square, in the reference's deviations. */
function relative(row: Float32Array, reference: Float64Array): number {
  const mean = reference.reduce((sum, logit) => sum + logit, 0) / reference.length;
  const difference = reference.reduce((sum, logit, i) => sum + (logit - row[i]!) ** 2, 0);
  return Math.sqrt(difference / reference.reduce((sum, logit) => sum + (logit - mean) ** 2, 0));
}

/**
 * Error of int8 activations. A step is a 127th of the largest of 32 normal numbers, some 2.3 of their deviations, and
 * rounding is off by a step / √12. Each layer rounds what its four products take, five with a shared expert, the output once
 * more: the root of as many such errors; twice that, for what the gate multiplies. Weights are the numbers that their blocks
 * stand for on both sides. Reads of Mamba 2 states are normalized, and single rows with them, however small: there the reference rounds
 * the same inputs, and what differs is what is rounded otherwise.
 */
function boundOf(name: RandomFamilyName): number {
  const family: RandomFamily = RANDOM_FAMILIES[name];
  const products = family.experts?.sharedFfn === undefined ? 4 : 5;
  return (2 * Math.sqrt(products * layersOf(name) + 1) * 2.3) / 127 / Math.sqrt(12);
}

describe('a quantized model of each family, fed the same tokens, gives the logits of double precision', () => {
  it.each(each)('%s in %s', async (family, weights) => {
    const [file, sequence] = [fileOf(family, weights), sequenceOf(family)];
    const { mamba }: RandomFamily = RANDOM_FAMILIES[family];
    const roundsInputs = mamba !== undefined;
    const expected = float64Forward(file, sequence, { phi3Window: true, roundsInputs }).slice(PROMPT - 1);
    const actual = await logitsOf(file, sequence);
    expect(actual).toHaveLength(FED + 1);
    const differences = actual.map((row, step) => relative(row, expected[step]!));
    const largest = Math.max(...differences);
    console.log(
      `${family} in ${weights}: largest ${largest.toExponential(1)}, bound ${boundOf(family).toExponential(1)}`,
    );
    expect(largest).toBeLessThanOrEqual(boundOf(family));
  });
});

describe('and has one hash of its logits, alone, in chunks and among 16 others', () => {
  it.each(each)('%s in %s', async (family, weights) => {
    const limits = { kvCacheType: 'f16', maxSequences: 17, maxStepTokens: 1000 } as const;
    const model = await load(fileOf(family, weights), limits);
    try {
      const alone = await logitsHashes(device, model, INVARIANCE_PROMPT);
      expect(new Set(alone).size).toBe(4);
      for (const chunk of [1, 17])
        expect(await logitsHashes(device, model, chunk), `chunks of ${chunk}`).toEqual(alone);
      expect(await logitsHashes(device, model, INVARIANCE_PROMPT, 16)).toEqual(alone);
      expect(await logitsHashes(device, model, 100, 16)).toEqual(alone);
    } finally {
      model.release();
    }
  });
});
