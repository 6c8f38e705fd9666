import { expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { RANDOM_FAMILIES } from '../support/random-families.js';
import { randomModel, writeRandomModel } from '../support/random-model.js';

it('counts, of the weights that a token reads, the experts that it is sent to and one row of the embedding', async () => {
  const file = writeRandomModel({ family: 'qwen3moe' });
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 16, kvMemoryBytes: 0, fingerprint: '' };
  const model = await loadModel(openDevice({ kind: 'host' }), { path: file, kvCacheType: 'f32', ...limits }, () => {});

  const { count, used } = RANDOM_FAMILIES.qwen3moe.experts;
  const readOf = (name: string, rows: number, bytes: number): number => {
    if (name.includes('_exps')) return (bytes * used) / count;
    return name === 'token_embd.weight' ? bytes / rows : bytes;
  };
  const tensors = [...randomModel({ family: 'qwen3moe' }).read().tensors.values()];
  const expected = tensors.reduce((sum, { name, dims, bytes }) => sum + readOf(name, dims.at(-1) as number, bytes), 0);
  expect(model.weights.bytesReadPerToken).toBeCloseTo(expected, 3);
  expect(expected).toBeLessThan(tensors.reduce((sum, { bytes }) => sum + bytes, 0) / 1.5);
});
