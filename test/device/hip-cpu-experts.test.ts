import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
import { beforeAll, describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeQuantizedFamily } from '../support/quantized-family.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

describe.skipIf(missing !== undefined)('experts in host memory', { timeout: 600_000 }, () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  it('runs', async () => {
    const file = writeQuantizedFamily('qwen3moe', 'Q4_K_M');
    const device = openDevice({ kind: 'hip' });
    for (const cpuExperts of [0, 1, 2]) {
      const limits = { maxContext: 128, maxSequences: 3, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
      const began = performance.now();
      const model = await loadModel(device, { path: file, kvCacheType: 'f16', ...limits, cpuExperts }, () => {});
      const alone = await logitsHashes(device, model, 40, 0, 40);
      const others = await logitsHashes(device, model, 7, 2, 40);
      require('node:fs').appendFileSync('/tmp/cc.log', [cpuExperts, alone, others, performance.now() - began, device.native.graphs()].join(' ') + '\n');
      expect(others).toEqual(alone);
      model.release();
    }
  });
});
