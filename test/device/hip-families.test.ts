import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { besideHost } from '../../src/cli/verify/beside-host.js';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import { type ParityCase, readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { packageRoot } from '../../src/shared/package.js';
import { isFloat64Only, isTabled } from '../support/family-answers.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import {
  COVERING_FAMILIES,
  RANDOM_FAMILIES,
  RANDOM_FAMILY_NAMES,
  type RandomFamilyName,
} from '../support/random-families.js';
import type { RandomFamily } from '../support/random-family.js';
import { layersOf, writeRandomFamily } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

/** A prompt that goes past every window, and a token after it. */
const shortened = (cases: readonly ParityCase[]): ParityCase[] =>
  cases.slice(-1).map((one) => ({ ...one, tokens: one.tokens.slice(0, 2), top: one.top.slice(0, 2) }));

// The device simulates every thread: all families take minutes.
const families = (isFull ? RANDOM_FAMILY_NAMES : COVERING_FAMILIES).filter((family) => !isFloat64Only(family));
const hashed = isFull ? RANDOM_FAMILY_NAMES : (['gemma3', 'qwen35'] as const);

/** True if the family's keys have an entry for each of its layers. */
const listsLayers = (family: RandomFamilyName): boolean => {
  const { metadata, fileMetadata, layerShape }: RandomFamily = RANDOM_FAMILIES[family];
  return metadata?.['attention.head_count_kv'] !== undefined || fileMetadata !== undefined || layerShape !== undefined;
};

describe.skipIf(missing !== undefined)('each family on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  it.each(families)('%s gives llama.cpp’s log probabilities in F32', { timeout: 600_000 }, async (family) => {
    const file = path.join(packageRoot, 'test', 'fixtures', 'families', `${family}.json`);
    const { max, steps } = await teacherForced(writeRandomFamily(family), shortened(readParityCases(file)), {
      kind: 'hip',
    });
    expect(steps).toBe(2);
    expect(max).toBeLessThanOrEqual(isTabled(family) ? 1e-3 : 1e-5);
  });

  it('latent attention of DeepSeek’s sizes has one hash, alone, in chunks and among others', {
    timeout: 600_000,
  }, async () => {
    const limits = { maxContext: 320, maxSequences: 5, maxStepTokens: 310, kvMemoryBytes: 0, fingerprint: '' };
    const latents = { queryRank: 96, rank: 512, plain: 128, rotated: 64, valueDim: 128 };
    const file = writeRandomFamily('deepseek2', { type: 'F16', layers: 2, latents });
    const device = openDevice({ kind: 'hip' });
    if (isFull) {
      const { relative, bound } = await besideHost([device], file, { kvCacheType: 'f16' });
      expect(relative).toBeLessThanOrEqual(bound);
    }
    const model = await loadModel(device, { path: file, kvCacheType: 'f16', ...limits }, () => {});
    try {
      // A prompt of more rows than are split, and of fewer.
      const alone = await logitsHashes(device, model, 100, 0, 100);
      expect(await logitsHashes(device, model, 40, 2, 100)).toEqual(alone);
    } finally {
      model.release();
    }
  });

  it.each(hashed)('%s in F16 has one hash, alone, in chunks and among others', { timeout: 600_000 }, async (family) => {
    const limits = { maxContext: 320, maxSequences: 5, maxStepTokens: 500, kvMemoryBytes: 0, fingerprint: '' };
    const device = openDevice({ kind: 'hip' });
    const options = {
      path: writeRandomFamily(family, { type: 'F16', layers: listsLayers(family) ? layersOf(family) : 2 }),
      kvCacheType: 'f16',
      ...limits,
    } as const;
    const model = await loadModel(device, options, () => {});
    try {
      const alone = await logitsHashes(device, model, INVARIANCE_PROMPT);
      expect(new Set(alone).size).toBe(4);
      expect(await logitsHashes(device, model, 60, 4)).toEqual(alone);
    } finally {
      model.release();
    }
  });
});
