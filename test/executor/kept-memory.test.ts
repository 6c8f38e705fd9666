import { closeSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { loadAddon } from '../../src/executor/device/addon.js';
import { HostKeptMemory } from '../../src/executor/device/kept-memory.js';
import type { KeeperClient } from '../../src/executor/keeper/client.js';
import { GpuKeptMemory } from '../../src/executor/keeper/gpu-memory.js';
import { openDevice } from '../../src/executor/load/open-device.js';

const open: number[] = [];
const create = (): number => {
  const descriptor = loadAddon().createSharedMemory('test');
  open.push(descriptor);
  return descriptor;
};
afterEach(() => {
  for (const descriptor of open.splice(0)) closeSync(descriptor);
});

/** A device of a process that was given the memory. */
function deviceWith(descriptor: number) {
  const device = openDevice({ kind: 'host', threads: 1 });
  device.kept = new HostKeptMemory(descriptor);
  return device;
}

it('what one executor has written the next one finds, under the same identity', () => {
  const descriptor = create();
  const [first, second] = [deviceWith(descriptor), deviceWith(descriptor)];
  const written = [1.5, -2, 3].map((value, i) => {
    const buffer = first.allocateKept('f32', 1000 * (i + 1));
    expect(first.readF32(buffer, 1)[0]).toBe(0);
    first.native.write(buffer.address, new Uint8Array(Float32Array.of(value).buffer));
    return buffer;
  });
  const identity = first.kept?.identity();
  for (const buffer of written) first.release(buffer);
  expect(first.usedBytes).toBe(0);
  // Opened before the first had written its header: it is a device that was open all the time.
  second.kept = new HostKeptMemory(descriptor);
  const found = [1, 2, 3].map((i) => second.readF32(second.allocateKept('f32', 1000 * i), 1)[0]);
  expect(found).toEqual([1.5, -2, 3]);
  expect(second.kept.identity()).toBe(identity);
  expect(identity).not.toBe(0n);
});

it('an executor that allocates otherwise leaves what is there alone, and is another', () => {
  const descriptor = create();
  const first = deviceWith(descriptor);
  const ranges = [first.allocateKept('f32', 64), first.allocateKept('f32', 64)];
  const identity = first.kept?.identity();
  first.native.write(ranges[1]?.address as number, new Uint8Array(Float32Array.of(7).buffer));
  const other = deviceWith(descriptor);
  other.allocateKept('f32', 64);
  const own = other.allocateKept('f32', 128);
  other.native.write(own.address, new Uint8Array(Float32Array.of(9).buffer));
  expect(other.kept?.identity()).not.toBe(identity);
  const fewer = deviceWith(descriptor);
  fewer.allocateKept('f32', 64);
  expect(fewer.kept?.identity()).not.toBe(identity);
  const third = deviceWith(descriptor);
  third.allocateKept('f32', 64);
  expect(third.readF32(third.allocateKept('f32', 64), 1)[0]).toBe(7);
  expect(third.kept?.identity()).toBe(identity);
});

it('memory whose size is final neither grows nor shrinks', () => {
  const descriptor = create();
  deviceWith(descriptor).allocateKept('f32', 64);
  loadAddon().sealSharedMemory(descriptor);
  expect(() => loadAddon().mapSharedMemory(descriptor, 0, 1 << 24)).toThrow('ftruncate');
  const more = deviceWith(descriptor);
  for (const elements of [64, 1 << 20]) more.release(more.allocateKept('f32', elements));
  expect(more.usedBytes).toBe(0);
});

it('chunks of a GPU are whole pages of 2 MiB, and large ranges begin on one', async () => {
  const asked: number[] = [];
  const keeper = {
    state: { pid: 1, identity: '1', chunks: [], notes: {} },
    allocate: async (device: number, name: string, bytes: number) => {
      asked.push(bytes);
      return { device, name, bytes, handle: '' };
    },
  } as unknown as KeeperClient;
  const memory = new GpuKeptMemory(keeper, { importMemory: () => 1 << 30 }, 0);
  const PAGE = 2 << 20;
  // The sizes on an H100 at which an imported chunk was read at two thirds of the rate.
  for (const bytes of [256, PAGE, 3 * 1024 ** 3 + 4096, 6_160_793_536]) {
    await memory.reserve('weights', [1000, bytes]);
    const [small, large] = [memory.allocate(1000), memory.allocate(bytes)];
    expect(small?.address).toBe(1 << 30);
    expect(((large?.address as number) - (1 << 30)) % (bytes < 1 << 20 ? 256 : PAGE)).toBe(0);
    expect(memory.allocate(PAGE)).toBeUndefined();
  }
  expect(asked.map((bytes) => bytes % PAGE)).toEqual([0, 0, 0, 0]);
});
