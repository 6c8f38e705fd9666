import { describe, expect, it } from 'vitest';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import {
  COVERING_FAMILIES,
  RANDOM_ALIAS_NAMES,
  RANDOM_FAMILIES,
  RANDOM_FAMILY_NAMES,
} from '../support/random-families.js';
import { writeRandomFamily } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

const families = isFull ? [...RANDOM_FAMILY_NAMES, ...RANDOM_ALIAS_NAMES] : COVERING_FAMILIES;

describe('a sequence of each family has one hash of its logits, alone, in chunks and among 16 others', () => {
  it.each(families)('%s', async (family) => {
    const limits = { maxContext: 640, maxSequences: 17, maxStepTokens: 1100, kvMemoryBytes: 0, fingerprint: '' };
    const device = openDevice({ kind: 'host' });
    const path = writeRandomFamily(family, { contextLength: 640 });
    const model = await loadModel(device, { path, kvCacheType: 'f16', ...limits }, () => {});
    const isMixture = 'experts' in RANDOM_FAMILIES[family];
    // Which experts have rows, and how many, differs with each chunking.
    const chunks = isMixture ? [1, 3, 17, 500] : [1, 17];
    const length = isMixture ? 520 : INVARIANCE_PROMPT;
    const hashes = (chunk: number, others = 0) => logitsHashes(device, model, chunk, others, length);
    try {
      const alone = await hashes(length);
      expect(new Set(alone).size).toBe(4);
      for (const chunk of chunks) expect(await hashes(chunk), `chunks of ${chunk}`).toEqual(alone);
      expect(await hashes(length, 16), 'among 16').toEqual(alone);
      expect(await hashes(100, 16), 'chunks of 100 among 16').toEqual(alone);
    } finally {
      model.release();
    }
  });
});
