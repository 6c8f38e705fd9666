import { describe, expect, it } from 'vitest';
import { readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { sharedPath } from '../support/shared-data.js';
import { BOUNDS } from './support/parity-bounds.js';

describe.each(Object.entries(BOUNDS))('%s, fed llama.cpp’s tokens', (parityName, { model: modelName, mean, max }) => {
  const model = sharedPath(`data/models/${modelName}.gguf`);
  const parity = sharedPath(`data/parity/${parityName}.json`);

  it.skipIf(!model || !parity)(`strays from its log probabilities by ${mean} in the mean, ${max} at most`, async () => {
    const deviation = await teacherForced(model!, readParityCases(parity!));
    console.log(
      `${parityName}: mean ${deviation.mean.toFixed(4)}, max ${deviation.max.toFixed(3)} over ${deviation.steps} steps; ` +
        `${deviation.sameToken} have the same likeliest token`,
    );
    expect(deviation.mean).toBeLessThanOrEqual(mean);
    expect(deviation.max).toBeLessThanOrEqual(max);
  });
});

describe('stories260K-f32, a trained model, fed llama.cpp’s tokens', () => {
  const model = sharedPath('data/models/stories260K-f32.gguf');
  const parity = sharedPath('data/parity/stories260K-f32.json');

  it.skipIf(!model || !parity)('chooses every one of its tokens, with log probabilities within 1e-4', async () => {
    const deviation = await teacherForced(model!, readParityCases(parity!));
    expect(deviation.sameToken).toBe(deviation.steps);
    expect(deviation.max).toBeLessThanOrEqual(1e-4);
  });

  it.skipIf(!model || !parity)('with an f16 KV cache strays by 0.02 at most', async () => {
    const deviation = await teacherForced(model!, readParityCases(parity!), { kvCacheType: 'f16' });
    expect(deviation.max).toBeLessThanOrEqual(0.02);
  });
});
