import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { fitReport, formatFitReport } from '../../src/cli/inspect/fit.js';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import type { NativeLaunch } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { copyChunks } from '../../src/executor/kernels/index.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { numericsOf } from '../../src/executor/serve/numerics-fingerprint.js';
import { FakeNativeDevice } from '../doubles/native-device.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';

const MIB = 2 ** 20;
const LAYERS = 6;

/** A GPU that keeps what is launched in its plans. */
class PlannedDevice extends FakeNativeDevice {
  readonly recorded: NativeLaunch[][] = [];
  override createPlan(launches: readonly NativeLaunch[], ...rest: [number, number]): number {
    this.recorded.push([...launches]);
    return super.createPlan(launches, ...rest);
  }
}

function gpu(bytes: number, target = 'gfx1100'): { readonly native: PlannedDevice; readonly device: Device } {
  const native = new PlannedDevice(bytes);
  const device = new Device(native, target === 'sm_90' ? 'cuda' : 'hip', target);
  device.opensHost = () => new Device(new FakeNativeDevice(0), 'host', 'x86-64-v3');
  return { native, device };
}

describe('experts in host memory', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const file = path.join(folder, 'experts.gguf');
  const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const options = { ...limits, path: file, kvCacheType: 'f16' } as const;
  const load = async (device: Device, more: Partial<LoadOptions>) =>
    loadModel(device, { ...options, ...more }, () => undefined);
  beforeAll(() => {
    const experts = { count: 32, used: 4, ffn: 256 };
    synth({ shape: { ...SHAPES.tiny!, architecture: 'llama', layers: LAYERS, experts }, type: 'Q8_0', output: file });
  });

  it.each([
    [{ cpuExperts: LAYERS + 1 }, `--cpu-experts is ${LAYERS + 1}; the model has ${LAYERS} layers with routed experts`],
    [{ cpuExperts: 1, path: writeRandomModel() }, '--cpu-experts is 1; the model has no routed experts'],
  ] as const)('refuses %o', async (more, message) => {
    await expect(load(gpu(2 ** 30).device, more)).rejects.toMatchObject({ reason: 'INVALID_OPTION', message });
  });

  it('refuses a split over several GPUs', async () => {
    const devices = [gpu(2 ** 30).device, gpu(2 ** 30).device];
    const loading = loadModel(devices, { ...options, cpuExperts: 1 }, () => undefined);
    const message = '--cpu-experts is 1; it requires a model on one GPU, without --split';
    await expect(loading).rejects.toMatchObject({ reason: 'INVALID_OPTION', message });
  });

  it('are launched by the host between launches of the GPU, for the last layers', async () => {
    const { native, device } = gpu(2 ** 30);
    for (const cpuExperts of [0, 1, LAYERS]) {
      native.recorded.length = 0;
      (await load(device, { cpuExperts })).release();
      // The last one is that of blocks' checksums.
      const [plan = []] = native.recorded.slice(-2);
      const onHost = (copies: boolean) =>
        plan.flatMap((one, i) =>
          one.onHost === true && (one.kernel === copyChunks.name) === copies ? [i / plan.length] : [],
        );
      const places = onHost(false);
      // Gate and up, and down; each is multiplied by the host, or copied for the GPU.
      expect(places.length).toBe(3 * cpuExperts);
      expect(onHost(true).length).toBe(3 * cpuExperts);
      if (cpuExperts === 1) expect(Math.min(...places)).toBeGreaterThan(1 - 1.5 / LAYERS);
      expect(device.usedBytes).toBe(0);
    }
  });

  it('with auto a model that fits has the launches of one without', async () => {
    const [plain, auto] = [gpu(2 ** 30), gpu(2 ** 30)];
    (await load(plain.device, {})).release();
    const model = await load(auto.device, { cpuExperts: 'auto' });
    expect(model.cpuExperts).toBe(0);
    model.release();
    // Addresses are each device's own.
    const seen = (launches: readonly NativeLaunch[]) =>
      launches.map(({ kernel, grid, when, onHost }) => ({ kernel, grid, when, onHost }));
    expect(auto.native.recorded.map(seen)).toEqual(plain.native.recorded.map(seen));
  });

  it('with auto are as few as let the model fit, in less and less memory, and all else is refused', async () => {
    const chosen: number[] = [];
    for (let mebibytes = 330; mebibytes >= 258; mebibytes -= 3) {
      const { device, native } = gpu(mebibytes * MIB);
      try {
        const model = await load(device, { cpuExperts: 'auto' });
        chosen.push(model.cpuExperts);
        model.release();
        // One fewer does not fit, but for what a driver takes.
        if (model.cpuExperts > 1 && mebibytes % 2 === 0) {
          const less = gpu(mebibytes * MIB * (1 - 1 / 32)).device;
          const cpuExperts = model.cpuExperts - 1;
          await expect(load(less, { cpuExperts })).rejects.toMatchObject({ reason: 'OUT_OF_MEMORY' });
        }
      } catch (error) {
        expect(error).toMatchObject({ reason: 'OUT_OF_MEMORY' });
        chosen.push(LAYERS + 1);
      }
      expect(native.held).toMatchObject({ bytes: 0, plans: 0 });
    }
    console.log(`layers with experts in host memory: ${chosen.join(', ')}`);
    expect(chosen).toEqual([...chosen].sort((a, b) => a - b));
    expect(new Set(chosen).size).toBeGreaterThan(3);
    expect([chosen[0], chosen.at(-1)]).toEqual([0, LAYERS + 1]);
  });

  it('without auto a model that does not fit is refused, as before', async () => {
    const small = () => gpu(290 * MIB).device;
    await expect(load(small(), {})).rejects.toMatchObject({ reason: 'OUT_OF_MEMORY' });
    const model = await load(small(), { cpuExperts: 'auto' });
    expect(model.cpuExperts).toBeGreaterThan(0);
    model.release();
  });

  it('a limit of memory is as good as a GPU that has no more', async () => {
    const small = await load(gpu(290 * MIB).device, { cpuExperts: 'auto' });
    const limited = await load(gpu(2 ** 30).device, { cpuExperts: 'auto', deviceMemoryBytes: 290 * MIB });
    expect(limited.cpuExperts).toBe(small.cpuExperts);
    expect(limited.forward.limits).toEqual(small.forward.limits);
    await expect(load(gpu(2 ** 30).device, { deviceMemoryBytes: 290 * MIB })).rejects.toMatchObject({
      reason: 'OUT_OF_MEMORY',
    });
  });

  it.each([
    ['long where memory suffices', 2 ** 30, 1, 2048],
    ['as ever where it does not', 290 * MIB, 'auto', 512],
    ['as ever with all experts on the GPU', 2 ** 30, 0, 512],
    ['as ever where the model fits', 2 ** 30, 'auto', 512],
  ] as const)('steps are %s', async (_what, bytes, cpuExperts, stepTokens) => {
    const model = await load(gpu(bytes).device, { cpuExperts, maxStepTokens: 0 });
    expect(model.forward.limits.maxStepTokens).toBe(stepTokens);
    expect(model.cpuExperts > 0).toBe(stepTokens === 2048 || bytes < 2 ** 30);
    model.release();
  });

  it('inspect --fit shows them', async () => {
    const fit = { memory: 290 * MIB, context: 64, sequences: 2, kvCacheType: 'f16' } as const;
    const report = await fitReport(file, fit);
    const [granted] = report.devices.map((one) => one.granted!);
    expect(granted!.cpuExperts).toBeGreaterThan(0);
    expect(granted!.hostBytes).toBeGreaterThan(granted!.cpuExperts * 32 * 3 * 256 * 256);
    expect(formatFitReport(report)).toMatch(
      /in host memory .* MiB: the routed experts of the last \d layers that have any/,
    );
    const { devices } = await fitReport(file, { ...fit, cpuExperts: LAYERS });
    expect(devices[0]!.granted!.cpuExperts).toBe(LAYERS);
  });

  it('are part of the numerics fingerprint only where the host has other numerics', async () => {
    const named = async (target: string, more: Partial<LoadOptions>): Promise<boolean> => {
      const { device } = gpu(2 ** 30, target);
      const model = await load(device, more);
      const name = numericsOf(device, model);
      model.release();
      return name.includes('cpu-experts=');
    };
    const floats = writeRandomFamily('qwen3moe', { type: 'F16' });
    expect(await named('gfx1100', { cpuExperts: 1 })).toBe(false);
    expect(await named('gfx1100', { cpuExperts: 1, path: floats })).toBe(true);
    expect(await named('sm_90', { cpuExperts: 1 })).toBe(true);
    expect(await named('sm_90', { cpuExperts: 0 })).toBe(false);
  });

  it('on the host change nothing', async () => {
    const device = openDevice({ kind: 'host', threads: 2 });
    const hashes: string[] = [];
    for (const cpuExperts of [0, 2, 'auto'] as const) {
      const model = await load(device, { cpuExperts });
      expect(model.cpuExperts).toBe(0);
      hashes.push((await logitsHashes(device, model, 20, 0, 20)).join());
      model.release();
    }
    expect(new Set(hashes).size).toBe(1);
  });
});
