import { expect, it } from 'vitest';
import { Device } from '../../src/executor/device/device.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { FakeNativeDevice } from '../doubles/native-device.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { writeRandomModel } from '../support/random-model.js';

class PlannedDevice extends FakeNativeDevice {
  override readonly properties;

  constructor(wave: number, block: number) {
    super(2 ** 40);
    this.properties = { description: 'no device', wave, block };
  }
}

const LAYERS = 2;
const DEVICES = [
  ['host', new PlannedDevice(1, 1), 'host', 'double'],
  ['a GPU', new PlannedDevice(32, 256), 'hip', 'double'],
  ['Hopper', new PlannedDevice(32, 256), 'cuda', 'sm_90'],
] as const;
/** Norms of a block, each of which several values take. */
const FAMILIES: readonly (readonly [family: RandomFamilyName, norms: number])[] = [
  ['qwen2moe', 2],
  ['granitemoe', 2],
  ['glm4moe', 2],
  ['command-r', 1],
];
const cases = DEVICES.flatMap(([name, native, kind, target]) =>
  FAMILIES.flatMap(([family, norms]) =>
    (['F32', 'F16'] as const).map((type) => ({ name, native, kind, target, family, norms, type })),
  ),
);

it.each(cases)('$name normalizes once what a router, experts and others take: $family $type', async (given) => {
  const { native, kind, target, family, norms, type } = given;
  const path = writeRandomModel({ family, type, layers: LAYERS });
  const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const options = { ...limits, path, kvCacheType: 'f16' } as const;
  const model = await loadModel(new Device(native, kind, target), options, () => undefined);
  const launched = model.forward.kernels.filter((kernel) => /^(rms|layer)_norm/.test(kernel));
  // And once each what logits are computed from, and the hidden states that a step returns.
  expect(launched).toHaveLength(norms * LAYERS + 2);
  model.release();
});
