import { beforeAll, describe, expect, it } from 'vitest';
import { trialSpeed } from '../../src/cli/inspect/trial-speed.js';
import type { Device } from '../../src/executor/device/device.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { loadForTrial } from '../../src/executor/load/trial-load.js';
import { ModelFiles } from '../../src/lib/gguf/model-files.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeQuantizedFamily } from '../support/quantized-family.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const TOKENS = { prompt: 2, warm: 1, timed: 2, runs: 1 };
const LIMITS = { maxContext: 64, maxSequences: 1, maxStepTokens: 16, kvMemoryBytes: 0, stateSnapshots: 0 } as const;

describe.skipIf(missing !== undefined)('speed that inspect --fit reports', { timeout: 120_000 }, () => {
  const double = new HipDouble();
  const path = writeQuantizedFamily('qwen3moe', 'Q4_K_M');
  let device: Device;
  beforeAll(() => {
    double.install();
    device = openDevice({ kind: 'hip' });
  });

  it.each([0, 1, 2])(
    'is measured with the experts of %i layers in host memory, and leaves nothing behind',
    async (cpuExperts) => {
      const files = new ModelFiles(path);
      const { model } = files;
      const [used, { freeBytes }] = [device.usedBytes, device.native.memory()];
      const rate = await trialSpeed(device, files.parts, { model, kvCacheType: 'f16' }, { cpuExperts }, TOKENS);
      expect(rate).toBeGreaterThan(0);
      expect(device.usedBytes).toBe(used);
      expect(device.native.memory().freeBytes).toBe(freeBytes);
      files.close();
    },
  );

  it('has the launches of a load, and reads routers and norms', async () => {
    const files = new ModelFiles(path);
    const options = { path, kvCacheType: 'f16', fingerprint: '', cpuExperts: 1, ...LIMITS } as const;
    const tried = await loadForTrial(device, files.parts, files.model, options);
    const loaded = await loadModel(device, options, () => undefined);
    expect(tried.forward.kernels).toEqual(loaded.forward.kernels);
    const bytes = (model: typeof loaded, name: string) => {
      const tensor = files.model.tensors.get(name);
      const { address } = model.weights.vector({ tensor, length: 1 } as never);
      return Buffer.from(device.native.read(address, 64));
    };
    for (const name of ['blk.0.ffn_gate_inp.weight', 'blk.1.attn_norm.weight']) {
      expect(bytes(tried, name)).toEqual(bytes(loaded, name));
      expect(bytes(tried, name).every((byte) => byte === 0)).toBe(false);
    }
    tried.release();
    loaded.release();
    files.close();
  });
});
