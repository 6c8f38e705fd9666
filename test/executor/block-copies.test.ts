import { closeSync, ftruncateSync, readSync } from 'node:fs';
import { afterEach, expect, it } from 'vitest';
import { DeviceScope } from '../../src/executor/device/device.js';
import { SavedMemory } from '../../src/executor/device/saved-memory.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { BlockCopies, type BlockStore } from '../../src/executor/parallel/block-copies.js';
import type { Stage } from '../../src/executor/parallel/model-devices.js';
import { loadNativeAddon } from '../../src/shared/native-addon.js';
import { Random } from '../kernels/support/values.js';

const device = openDevice({ kind: 'host' });
const addon = loadNativeAddon<{ createSharedMemory(name: string): number }>();
const memory: DeviceScope[] = [];
const stores: Store[] = [];
afterEach(() => {
  for (const scope of memory.splice(0)) scope.release();
  for (const { descriptor } of stores.splice(0)) closeSync(descriptor);
});

const NONE = { windowBlocks: new Int32Array(0), states: new Int32Array(0) };

/** A store that is as large as what is written there. */
class Store implements BlockStore {
  readonly descriptor = addon.createSharedMemory('block-copies-test');
  private readonly memory = new SavedMemory(this.descriptor);
  end = 0;

  constructor() {
    stores.push(this);
  }

  get bytes(): Buffer {
    const bytes = Buffer.alloc(this.end);
    expect(readSync(this.descriptor, bytes, 0, this.end, 0)).toBe(this.end);
    return bytes;
  }

  write(bytes: Uint8Array, at: number): void {
    this.memory.write(bytes, at);
    this.end = Math.max(this.end, at + bytes.length);
  }
}

/** Stages whose blocks have parts of these sizes, in words. */
function stagesOf(stages: readonly (readonly number[])[], blockCount: number, store: Store) {
  const random = new Random(3);
  const scopes = stages.map(() => new DeviceScope(device));
  memory.push(...scopes);
  const parts = stages.map((sizes, i) =>
    sizes.map((words) => {
      const { address } = (scopes[i] as DeviceScope).allocate('i32', words * blockCount);
      const content = Int32Array.from({ length: words * blockCount }, () => random.below(2 ** 32) | 0);
      device.native.write(address, new Uint8Array(content.buffer));
      return { address, bytes: 4 * words, content };
    }),
  );
  const loaded = parts.map((blocks) => ({ forward: { blockParts: { blocks, windowBlocks: [], states: [] } } }));
  return { copies: new BlockCopies(loaded as unknown as Stage[], scopes, store), parts: parts.flat() };
}

it.each([
  ['many small parts', 600, [Array.from({ length: 64 }, (_, i) => 1 + i)]],
  ['more words than go over the bus at once', 7, [[300_000, 7, 4_800_001, 16_384]]],
  ['two devices', 7, [[5, 16], [1_100_000]]],
] as const)('copies blocks with %s, and no others', async (_, blockCount, stages) => {
  const store = new Store();
  const { copies, parts } = stagesOf(stages, blockCount, store);
  const words = parts.reduce((sum, { bytes }) => sum + bytes / 4, 0);
  expect(copies.bytes).toEqual({ blocks: 4 * words, windowBlocks: 0, states: 0 });
  // Not in order, and not all.
  const saved = Int32Array.from({ length: blockCount - 2 }, (_, i) => (i * 11 + 3) % blockCount);
  const count = saved.length;
  const AT = 100;
  await copies.save({ ...NONE, blocks: saved }, AT);
  expect(store.end).toBe(AT + 4 * words * count);
  // A block's parts lie one behind the other.
  const stored = store.bytes;
  for (const [i, block] of saved.entries()) {
    let at = AT + 4 * words * i;
    for (const { bytes, content } of parts) {
      const expected = new Uint8Array(content.buffer, block * bytes, bytes);
      expect(Buffer.compare(stored.subarray(at, at + bytes), expected)).toBe(0);
      at += bytes;
    }
  }
  // To other blocks, of which those that are not named stay as they are.
  const targets = saved.toReversed();
  await copies.restore({ ...NONE, blocks: targets }, AT);
  for (const { address, bytes, content } of parts) {
    const expected = content.slice();
    const part = bytes / 4;
    for (const [i, block] of targets.entries()) {
      const from = saved[i] as number;
      expected.set(content.subarray(from * part, (from + 1) * part), block * part);
    }
    const held = device.native.read(address, content.byteLength);
    expect(Buffer.compare(held, new Uint8Array(expected.buffer))).toBe(0);
  }
});

it('reports a store that fails, once', async () => {
  const store = new Store();
  const { copies } = stagesOf([[600_000]], 7, store);
  store.write = () => {
    throw new Error('no room');
  };
  await expect(copies.save({ ...NONE, blocks: Int32Array.of(1, 2, 3, 4, 5) }, 0)).rejects.toThrow('no room');
});

it('reports a store that ends too soon', async () => {
  const store = new Store();
  const { copies } = stagesOf([[600_000]], 7, store);
  const blocks = { ...NONE, blocks: Int32Array.of(1, 2, 3) };
  await copies.save(blocks, 0);
  ftruncateSync(store.descriptor, store.end - 4);
  await expect(copies.restore(blocks, 0)).rejects.toThrow('it ends before what is to be read');
});
