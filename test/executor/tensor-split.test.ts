import { describe, expect, it } from 'vitest';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import type { NativeDevice, NativeLaunch, NativeStep } from '../../src/executor/device/addon.js';
import type { Device } from '../../src/executor/device/device.js';
import { PATIENCE_MS } from '../../src/executor/layers/all-reduce.js';
import { openDevices } from '../../src/executor/load/open-device.js';
import { OUTPUT_HEADER } from '../../src/executor/model/step-tables.js';
import { attendedMs } from '../support/attended-time.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';
import { expectNear, loadShards, oneHash } from './support/shards.js';

const two = openDevices({ kind: 'host', threads: 2, gpus: [0, 1] });
const three = openDevices({ kind: 'host', threads: 3, gpus: [0, 1, 2] });
const four = openDevices({ kind: 'host', threads: 4, gpus: [0, 1, 2, 3] });
const eight = openDevices({ kind: 'host', threads: 8, gpus: [0, 1, 2, 3, 4, 5, 6, 7] });
const EVERY_WAY = [
  [500, 0],
  [1, 0],
  [17, 0],
  [100, 0],
  [500, 16],
  [100, 16],
] as const;

describe('a llama split into shards', () => {
  it.each([
    ['two', two, 256],
    ['four', four, 256],
    // Each head of keys and values is that of two devices.
    ['eight', eight, 256],
  ] as const)('over %s devices has one hash, near what one device computes', async (_count, devices, hidden) => {
    const path = writeRandomModel({ type: 'F16', hidden, headDim: devices === eight ? 64 : 16 });
    const split = await loadShards(path, devices);
    try {
      const { stages } = split.pipeline;
      expect(stages.map(({ device }) => device)).toEqual(devices);
      await oneHash(split, devices === eight ? EVERY_WAY.slice(0, 3) : EVERY_WAY, INVARIANCE_PROMPT);
    } finally {
      split.release();
    }
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
    await expectNear(path, devices);
  });
});

/** Changed behaviour of a device while something runs. */
async function planted<T>(
  device: Device,
  other: (native: NativeDevice) => Partial<NativeDevice>,
  run: () => Promise<T>,
) {
  const own = device.native as NativeDevice & Record<string, unknown>;
  const changed = other(Object.getPrototypeOf(own) as NativeDevice);
  for (const [name, value] of Object.entries(changed)) Object.defineProperty(own, name, { value, configurable: true });
  try {
    return await run();
  } finally {
    for (const name of Object.keys(changed)) delete own[name];
  }
}

/** The hash where launches of a device's plans are changed; what it says if ranks differ. */
async function hashWith(
  path: string,
  devices: readonly Device[],
  change: (launches: readonly NativeLaunch[]) => readonly NativeLaunch[],
): Promise<readonly string[] | string> {
  const last = devices.at(-1)!;
  const changed = (prototype: NativeDevice): Partial<NativeDevice> => ({
    createPlan: (launches, ...rest) => prototype.createPlan.call(last.native, change(launches), ...rest),
  });
  const split = await planted(last, changed, () => loadShards(path, devices));
  try {
    return await logitsHashes(last, split, 100, 0, 100).catch((error: Error) => error.message);
  } finally {
    split.release();
  }
}

/** A plan whose first launch of a kernel has other arguments. */
const withFirst =
  (kernel: string, change: (words: BigUint64Array) => BigUint64Array) =>
  (launches: readonly NativeLaunch[]): readonly NativeLaunch[] => {
    const at = launches.findIndex(({ kernel: name }) => name.startsWith(kernel));
    return launches.map((launch, i) => (i === at ? { ...launch, arguments: change(launch.arguments) } : launch));
  };

describe('a mistake that is planted in one sum is found out', () => {
  const path = writeRandomModel({ type: 'F16', hidden: 256 });

  it.each([
    ['a rank is left out, and another counted twice', two, [0, 0]],
    ['the order of ranks is another', four, [3, 2, 1, 0]],
  ] as const)('%s', async (_what, devices, order) => {
    const right = await hashWith(path, devices, (launches) => launches);
    const parts = (words: BigUint64Array) => words.map((word, i) => words[order[i] ?? i] ?? word);
    const wrong = await hashWith(path, devices, withFirst('sum_ranks', parts));
    expect(right).toBeInstanceOf(Array);
    expect(wrong).not.toEqual(right);
  });

  it('a shard begins a row late', async () => {
    const right = await hashWith(path, two, (launches) => launches);
    const later = (words: BigUint64Array) => words.map((word, i) => (i === 0 ? word + 2n * 256n : word));
    const wrong = await hashWith(path, two, withFirst('matmul', later));
    expect(right).toBeInstanceOf(Array);
    expect(wrong).not.toEqual(right);
  });
});

describe('a step of which one device', () => {
  const path = writeRandomModel({ hidden: 128 });
  const [first, last] = two as [Device, Device];

  it('samples another token ends by name, and the next one is right', async () => {
    const split = await loadShards(path, two);
    const hashes = () => logitsHashes(last, split, 20, 0, 20);
    const right = await hashes();
    const other = (prototype: NativeDevice): Partial<NativeDevice> => ({
      run: async (step: NativeStep) => {
        const us = await prototype.run.call(first.native, step);
        const token = 4 * OUTPUT_HEADER;
        if (step.output.length > token) step.output[token]! ^= 1;
        return us;
      },
    });
    const message = /devices of a tensor split have sampled token \d+ on device 0, \d+ on device 1/;
    await planted(first, other, () => expect(hashes()).rejects.toThrow(message));
    expect(await hashes()).toEqual(right);
    split.release();
  });

  it('fails before it is queued ends at once, and the next one is right', async () => {
    const split = await loadShards(path, two);
    const hashes = () => logitsHashes(last, split, 20, 0, 20);
    const right = await hashes();
    const other = (): Partial<NativeDevice> => ({ run: () => Promise.reject(new Error('planted')) });
    const ms = await attendedMs(() => planted(first, other, () => expect(hashes()).rejects.toThrow('planted')));
    // The other one would wait longer for a device of which nothing is said.
    expect(ms).toBeLessThan(PATIENCE_MS / 2);
    expect(await hashes()).toEqual(right);
    split.release();
  });

  it('does not come, and of which nothing is said, ends when the other has waited long enough', async () => {
    const split = await loadShards(path, two);
    const hashes = () => logitsHashes(last, split, 20, 0, 20);
    const right = await hashes();
    // As if it had run: nobody is told.
    const other = (): Partial<NativeDevice> => ({ run: async () => 0 });
    const message = /^device 1: another one of a tensor split did not come to their barrier for 10 s$/;
    await planted(first, other, () => expect(hashes()).rejects.toThrow(message));
    expect(await hashes()).toEqual(right);
    split.release();
  });
});

describe('what is not split into shards is refused by name', () => {
  it.each([
    ['over three devices', three, () => writeRandomModel(), '--split tensor is over 2, 4 or 8 devices, not over 3'],
    [
      'heads',
      eight,
      () => writeRandomModel(),
      'blk.0.attn_q.weight: 4 heads and 2 of keys do not divide over 8 devices',
    ],
    [
      'blocks',
      four,
      () => writeRandomModel(),
      'blk.0.attn_output.weight: 64 columns are not 4 parts of whole blocks of 32',
    ],
    ['experts', two, () => writeRandomFamily('llama-experts'), 'a layer of experts is not split into shards'],
    ['states', two, () => writeRandomFamily('qwen35'), 'is not split into shards by --split tensor; use --split layer'],
    ['norms over all heads', two, () => writeRandomFamily('olmo2'), 'blk.0.attn_q.weight: queries that are normalized'],
    [
      'norms by weights of each head',
      two,
      () => writeRandomFamily('command-r-plus'),
      'that are normalized by weights of each',
    ],
  ] as const)('%s', async (_what, devices, model, message) => {
    await expect(loadShards(model(), devices)).rejects.toThrow(message);
    for (const { usedBytes } of devices) expect(usedBytes).toBe(0);
  });

  it('shares', async () => {
    const load = loadShards(writeRandomModel(), two, { shares: [3, 1] });
    await expect(load).rejects.toThrow('the devices of --split tensor have equal parts');
  });
});
