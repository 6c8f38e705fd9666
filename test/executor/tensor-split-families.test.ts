import { describe, expect, it } from 'vitest';
import type { Device } from '../../src/executor/device/device.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { FAMILY_QUANTIZATIONS, writeQuantizedFamily } from '../support/quantized-family.js';
import { RANDOM_FAMILIES, RANDOM_FAMILY_NAMES } from '../support/random-families.js';
import type { RandomFamily } from '../support/random-family.js';
import { writeRandomFamily } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';
import { expectNear, loadShards, oneHash } from './support/shards.js';

const two = openDevices({ kind: 'host', threads: 2, gpus: [0, 1] });
const four = openDevices({ kind: 'host', threads: 4, gpus: [0, 1, 2, 3] });
const LENGTH = 120;
const WAYS = [
  [LENGTH, 0],
  [1, 0],
  [17, 0],
  [100, 16],
] as const;

/** Families of experts, of states, and whose queries are normalized otherwise than each head alike, are refused: tensor-split.test.ts. */
const FAMILIES = (isFull ? RANDOM_FAMILY_NAMES : (['qwen2', 'gemma3'] as const)).filter((name) => {
  const { experts, nets, qkNorm }: RandomFamily = RANDOM_FAMILIES[name];
  return experts === undefined && nets === undefined && (qkNorm === undefined || qkNorm === 'head');
});
/** Refusals by name, of other layers and of sizes that do not divide; a test below says which families have none. */
const REFUSED =
  /(is not split into shards|are not \d parts of whole blocks of \d+) by --split tensor; use --split layer$/;
const split = new Set<string>();

describe('a model of each dense family in shards over two devices has one hash, near what one device computes', () => {
  it.each(FAMILIES)('%s, F16', async (family) => {
    if (await check(writeRandomFamily(family, { type: 'F16' }))) split.add(family);
  });
  // As wide as whole blocks of 256 in each part of a projection ask for.
  for (const weights of FAMILY_QUANTIZATIONS) {
    it.each(FAMILIES)(`%s, ${weights}`, async (family) => {
      const wide = (RANDOM_FAMILIES[family] as RandomFamily).hidden ?? 512;
      await check(writeQuantizedFamily(family, weights, Math.max(512, wide)));
    });
  }
});

describe('over four devices, too', () => {
  it.each(FAMILIES)('%s, Q8_0', async (family) => {
    await check(writeQuantizedFamily(family, 'Q8_0', 512), four);
  });
});

it('families of dense layers are split', () => {
  const dense = ['llama', 'qwen2', 'qwen3', 'gemma', 'gemma2', 'gemma3', 'phi3', 'glm4', 'smollm3'] as const;
  expect([...split]).toEqual(expect.arrayContaining(isFull ? [...dense] : [...FAMILIES]));
});

/** @returns false where the family is refused by name */
async function check(path: string, devices: readonly Device[] = two): Promise<boolean> {
  const loaded = await loadShards(path, devices).catch((error: Error) => error.message);
  if (typeof loaded === 'string') {
    expect(loaded).toMatch(REFUSED);
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
    return false;
  }
  try {
    await oneHash(loaded, WAYS, LENGTH);
  } finally {
    loaded.release();
  }
  for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  await expectNear(path, devices);
  return true;
}
