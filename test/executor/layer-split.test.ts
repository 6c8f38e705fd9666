import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import type { NativeDevice, NativeStep } from '../../src/executor/device/addon.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice, openDevices } from '../../src/executor/load/open-device.js';
import { COVERING_FAMILIES, RANDOM_FAMILIES, RANDOM_FAMILY_NAMES } from '../support/random-families.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';

const LIMITS = { maxContext: 640, maxSequences: 17, maxStepTokens: 1100, kvMemoryBytes: 0, fingerprint: '' };
const one = openDevice({ kind: 'host', threads: 1 });
const two = openDevices({ kind: 'host', threads: 2, gpus: [0, 1] });
const three = openDevices({ kind: 'host', threads: 3, gpus: [0, 1, 2] });

async function load(path: string, devices: typeof two, options: Partial<LoadOptions> = {}): Promise<LoadedModel> {
  return loadModel(devices, { path, kvCacheType: 'f16', ...LIMITS, ...options }, () => undefined);
}

/** Those whose layers need nothing of layers that may be on another device. */
const SPLITTABLE = (isFull ? RANDOM_FAMILY_NAMES : COVERING_FAMILIES).filter(
  (family) => !('layerInputs' in RANDOM_FAMILIES[family]),
);

it('a model whose layers share keys and values is not split', async () => {
  await expect(load(writeRandomFamily('gemma4', { contextLength: 640 }), two)).rejects.toMatchObject({
    reason: 'INVALID_OPTION',
    message: expect.stringContaining('is not split over several devices'),
  });
});

describe('a model of each family, split between layers over two devices, has the hash of one device', () => {
  it.each(SPLITTABLE)('%s', async (family) => {
    const path = writeRandomFamily(family, { contextLength: 640 });
    const length = 'experts' in RANDOM_FAMILIES[family] ? 520 : INVARIANCE_PROMPT;
    const [whole, split] = [await load(path, [one]), await load(path, two)];
    try {
      expect(split.pipeline.stages.map(({ device }) => device)).toEqual(two);
      const alone = await logitsHashes(one, whole, length, 0, length);
      const hashes = (chunk: number, others = 0) => logitsHashes(two[1]!, split, chunk, others, length);
      expect(await hashes(length), 'alone').toEqual(alone);
      for (const chunk of [1, 17, 500]) expect(await hashes(chunk), `chunks of ${chunk}`).toEqual(alone);
      expect(await hashes(length, 16), 'among 16').toEqual(alone);
      expect(await hashes(100, 16), 'chunks of 100 among 16').toEqual(alone);
    } finally {
      whole.release();
      split.release();
    }
  });
});

describe('a llama of six layers', () => {
  const path = writeRandomModel({ layers: 6, contextLength: 640 });
  let whole: LoadedModel;
  let alone: readonly string[];
  beforeAll(async () => {
    whole = await load(path, [one]);
    alone = await logitsHashes(one, whole, INVARIANCE_PROMPT);
  });
  afterAll(() => whole.release());

  it.each([
    ['three to one', two, [3, 1]],
    ['one to nine', two, [1, 9]],
    ['over three devices', three, undefined],
    ['one to one to ten', three, [1, 1, 10]],
  ] as const)('split %s has the same hash', async (_how, devices, shares) => {
    const split = await load(path, devices as typeof two, shares && { shares: [...shares] });
    try {
      const { stages } = split.pipeline;
      const layers = stages.map(({ forward }) => forward.kernels.filter((name) => name.startsWith('attention')).length);
      console.log(`layers that attend: ${layers.join(', ')}`);
      expect(layers.reduce((sum, count) => sum + count)).toBe(6);
      expect(await logitsHashes(devices.at(-1)!, split, INVARIANCE_PROMPT)).toEqual(alone);
      expect(await logitsHashes(devices.at(-1)!, split, 17, 16)).toEqual(alone);
      expect(stages.reduce((sum, { forward }) => sum + forward.cache.bytes, 0)).toBe(whole.forward.cache.bytes);
      // Nothing but weights of both ends may be on two devices; on the host they stay in the file.
      expect(split.kvBytes).toBe(whole.kvBytes);
    } finally {
      split.release();
    }
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });

  it.each([
    ['the residual stream', 1, 'residual'],
    ['the sampled tokens', 0, 'tokens'],
  ] as const)('without one copy of %s has another hash', async (_what, stage, link) => {
    const split = await load(path, two);
    const device = split.pipeline.stages[stage]!.device;
    const native = device.native;
    let left = 1;
    const planted = new Proxy(native, {
      get: (target, name: keyof NativeDevice) => {
        if (name !== 'run') return (target[name] as () => unknown).bind(target);
        return (step: NativeStep) => {
          const { receives } = step;
          if (receives === undefined || left-- !== 1) return target.run(step);
          return target.run({ ...step, receives: { ...receives, bytes: 0 } });
        };
      },
    });
    Object.assign(device, { native: planted });
    try {
      const hashes = await logitsHashes(two[1]!, split, INVARIANCE_PROMPT);
      const wrong = hashes.flatMap((hash, i) => (hash === alone[i] ? [] : [i]));
      console.log(`${link}: rows ${wrong.join(', ')} of 4 differ`);
      expect(wrong.length).toBeGreaterThan(0);
    } finally {
      Object.assign(device, { native });
      split.release();
    }
  });

  it('over more devices than layers is refused by name', async () => {
    const path = writeRandomModel({ layers: 1 });
    await expect(load(path, three, { maxContext: 64 })).rejects.toThrow('a model of 2 layers');
    for (const { usedBytes } of three) expect(usedBytes).toBe(0);
  });

  it('with as many shares as there are no devices is refused by name', async () => {
    await expect(load(path, two, { shares: [1, 1, 1] })).rejects.toThrow('3 shares of a model for 2 devices');
  });
});
