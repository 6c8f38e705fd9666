import { describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = 12;

describe.skipIf(missing !== undefined)('a copy between two HIP devices that fails', () => {
  it('fails its step on every device with the words of the one that it happened on, and no step after it', async () => {
    const double = new HipDouble({ devices: 2, fault: 'error=1@peer:1+' });
    double.install();
    const devices = openDevices({ kind: 'hip', gpus: [0, 1] });
    const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 16, kvMemoryBytes: 0, fingerprint: '' };
    const path = writeRandomModel({ type: 'F16', contextLength: 64 });
    const model = await loadModel(devices, { path, kvCacheType: 'f16', ...limits }, () => undefined);
    const hashes = () => logitsHashes(devices[1]!, model, PROMPT, 0, PROMPT);
    const undisturbed = await hashes();
    for (let failures = 0; failures < 3; failures++) {
      double.plant();
      await expect(hashes()).rejects.toThrow('device 0: cannot copy to another device: hipErrorInvalidValue');
      double.mend();
      expect(await hashes()).toEqual(undisturbed);
    }
    model.release();
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });
});
