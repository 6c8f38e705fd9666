import { describe, expect, it } from 'vitest';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import { loadModel } from '../../src/executor/loaded-model.js';
import { openDevice } from '../../src/executor/open-device.js';
import { RANDOM_FAMILY_NAMES } from '../support/random-families.js';
import { writeRandomFamily } from '../support/random-model.js';

describe('a sequence of each family has one hash of its logits, alone, in chunks and among 16 others', () => {
  it.each(RANDOM_FAMILY_NAMES)('%s', async (family) => {
    const limits = { maxContext: 320, maxSequences: 17, maxStepTokens: 1000, kvMemoryBytes: 0, fingerprint: '' };
    const device = openDevice({ kind: 'host' });
    const model = await loadModel(device, { path: writeRandomFamily(family), kvCacheType: 'f16', ...limits }, () => {});
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
