import { describe, expect, it } from 'vitest';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import { PATIENCE_MS } from '../../src/executor/layers/rank-meetings.js';
import { loadModel } from '../../src/executor/loaded-model.js';
import { openDevices } from '../../src/executor/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const PROMPT = 12;

describe.skipIf(missing !== undefined)('a graph of one rank that is not launched', { timeout: 300_000 }, () => {
  it('fails its step by name, the other rank waits no longer, and no step after it fails', async () => {
    const double = new HipDouble({ devices: 2, fault: 'error=1@graph:3' });
    double.install();
    const devices = openDevices({ kind: 'hip', gpus: [0, 1] });
    const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 16, kvMemoryBytes: 0, fingerprint: '' };
    const path = writeRandomModel({ type: 'F16', hidden: 128, contextLength: 64 });
    const how = { path, kvCacheType: 'f16', split: 'tensor', ...limits } as const;
    const model = await loadModel(devices, how, () => undefined);
    const hashes = () => logitsHashes(devices[1]!, model, PROMPT, 0, PROMPT);
    const began = performance.now();
    await expect(hashes()).rejects.toThrow(/^device [01]: cannot launch a graph: hipErrorInvalidValue/);
    expect(performance.now() - began).toBeLessThan(PATIENCE_MS);
    const right = await hashes();
    expect(await hashes()).toEqual(right);
    model.release();
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });
});
