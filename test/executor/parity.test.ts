import { expect, it } from 'vitest';
import { readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { sharedPath } from '../support/shared-data.js';
import { describeParity } from './support/parity.js';

describeParity();

const model = sharedPath('data/models/stories260K-f32.gguf');
const parity = sharedPath('data/parity/stories260K-f32.json');
it.skipIf(!model || !parity)('a trained model with an f16 KV cache strays by 0.02 at most', async () => {
  const deviation = await teacherForced(model!, readParityCases(parity!), { kvCacheType: 'f16' });
  expect(deviation.max).toBeLessThanOrEqual(0.02);
});
