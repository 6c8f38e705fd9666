import { describe, expect, it } from 'vitest';
import type { NativeDevice } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { selfTest } from '../../src/executor/load/self-test.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { writeRandomModel } from '../support/random-model.js';

const LIMITS = { maxContext: 64, maxSequences: 4, maxStepTokens: 64, kvMemoryBytes: 0 };
const NOTHING = { bytes: 0, plans: 0, graphs: 0 };

const load = (device: Device, path: string): Promise<LoadedModel> =>
  loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...LIMITS }, () => undefined);

/** The methods of a native device that a load calls; each may be made to throw at its n-th call over all. */
/** Plans of a loaded model: the whole, its two parts for steps whose rows are masked, and that of blocks' checksums. */
const PLANS = 4;
/** And on a GPU that of weights' checksums. */
const GPU_PLANS = 5;

const STAGES = ['kernel', 'allocate', 'write', 'read', 'createPlan', 'run'] as const;

/** The host device, of which every call is counted and one fails. */
function failingHost(): { device: Device; plant(at: number): void; calls(): number; plans(): number } {
  const { native } = openDevice({ kind: 'host', threads: 1 });
  let [calls, failAt, plans] = [0, 0, 0];
  const counted =
    (name: (typeof STAGES)[number]) =>
    (...parameters: unknown[]): unknown => {
      calls += 1;
      if (calls === failAt) throw new Error(`planted at ${name}`);
      const result = (native[name] as (...values: unknown[]) => unknown).apply(native, parameters);
      if (name === 'createPlan') plans += 1;
      return result;
    };
  const double = {
    properties: native.properties,
    release: (address: number) => native.release(address),
    releasePlan: (plan: number) => {
      native.releasePlan(plan);
      plans -= 1;
    },
    ...Object.fromEntries(STAGES.map((name) => [name, counted(name)])),
  } as unknown as NativeDevice;
  return {
    device: new Device(double, 'host', 'double'),
    plant: (at) => {
      [calls, failAt] = [0, at];
    },
    calls: () => calls,
    plans: () => plans,
  };
}

describe('a load that fails leaves nothing on the device', () => {
  it('of a GPU, whichever call fails', async () => {
    for (const architecture of ['llama', 'qwen2'] as const) {
      const path = writeRandomModel({ type: 'F16', family: architecture });
      const whole = new FakeNativeDevice();
      const model = await load(fakeGpu(whole), path);
      expect(whole.held.bytes).toBeGreaterThan(0);
      expect(whole.held).toMatchObject({ plans: GPU_PLANS, graphs: model.graphs.buckets.all().length });
      const stages = new Set<string>();
      const calls = whole.calls;
      for (let failAt = 1; failAt <= calls; failAt++) {
        const native = new FakeNativeDevice();
        native.failAt = failAt;
        const device = fakeGpu(native);
        await expect(load(device, path)).rejects.toThrow('planted');
        expect({ ...native.held, failed: native.failed }).toEqual({ ...NOTHING, failed: native.failed });
        expect(device.usedBytes).toBe(0);
        stages.add(native.failed.split(' ')[0]!);
      }
      console.log(`${architecture} on a GPU: ${calls} calls failed one at a time: ${[...stages].sort().join(', ')}`);
      expect([...stages].sort()).toEqual(
        [
          'allocate',
          'capture',
          'createPlan',
          'kernel',
          'memory',
          ...(architecture === 'qwen2' ? ['read'] : []),
          'run',
          'upload',
          'write',
        ].sort(),
      );
      model.release();
      expect(whole.held).toEqual(NOTHING);
    }
  });

  it('of the host, whichever call fails', async () => {
    const path = writeRandomModel({ family: 'qwen2' });
    const host = failingHost();
    const model = await load(host.device, path);
    const calls = host.calls();
    expect([host.plans(), host.device.usedBytes > 0]).toEqual([PLANS, true]);
    model.release();
    expect([host.plans(), host.device.usedBytes]).toEqual([0, 0]);
    for (let failAt = 1; failAt <= calls; failAt++) {
      host.plant(failAt);
      await load(host.device, path).then(
        // Kernels that were checked once are not looked up again: fewer calls.
        (loaded) => loaded.release(),
        (error: Error) => expect(error.message).toContain('planted'),
      );
      expect([failAt, host.plans(), host.device.usedBytes]).toEqual([failAt, 0, 0]);
    }
    console.log(`on the host: ${calls} calls failed one at a time`);
  });

  it('nor does a self-test, passed or failed', async () => {
    const native = new FakeNativeDevice();
    const device = fakeGpu(native);
    // The results of a device that computes nothing are wrong.
    await expect(selfTest(device)).rejects.toMatchObject({ reason: 'KERNELS_INVALID' });
    expect(native.held).toEqual(NOTHING);
    const host = openDevice({ kind: 'host', threads: 1 });
    await selfTest(host);
    expect(host.usedBytes).toBe(0);
  });

  it('nor do many loads, one after the other, that run and are given back', async () => {
    const path = writeRandomModel();
    const native = new FakeNativeDevice();
    const device = fakeGpu(native);
    for (let i = 0; i < 20; i++) (await load(device, path)).release();
    expect(native.held).toEqual(NOTHING);
  });
});
