import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { blocksFor } from '../../src/executor/model/slot-layout.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { writeRandomFamily, writeRandomModel } from '../support/random-model.js';

const CONTEXT = 4096;
const path = writeRandomModel({ type: 'F16', contextLength: CONTEXT });
const options = {
  path,
  kvCacheType: 'f16',
  fingerprint: '',
  maxContext: CONTEXT,
  maxSequences: 0,
  maxStepTokens: 0,
  kvMemoryBytes: 0,
} as const;

describe('sequences at once, where nobody says how many', () => {
  it('on the host are four', async () => {
    const model = await loadModel(openDevice({ kind: 'host', threads: 1 }), options, () => undefined);
    const { limits } = model.forward;
    expect(limits).toMatchObject({ maxSequences: 4, maxStepTokens: 512, kvBlocks: 1 + 4 * blocksFor(CONTEXT) });
    model.release();
  });

  it('on a GPU are as many as have room for 2048 tokens each, at most 256', async () => {
    const granted = async (native: FakeNativeDevice, more: object = {}) => {
      const model = await loadModel(fakeGpu(native), { ...options, ...more }, () => undefined);
      const { maxSequences, kvBlocks, maxStepTokens } = model.forward.limits;
      expect(kvBlocks - 1).toBeGreaterThanOrEqual(maxSequences === 1 ? 1 : maxSequences * blocksFor(2048));
      expect(maxStepTokens).toBe(Math.max(512, maxSequences));
      model.release();
      expect(native.held).toMatchObject({ bytes: 0, plans: 0, graphs: 0 });
      return maxSequences;
    };
    expect(await granted(new FakeNativeDevice())).toBe(256);
    const counts: number[] = [];
    for (const mebibytes of [512, 400, 350, 320, 300, 290]) {
      counts.push(await granted(new FakeNativeDevice(mebibytes << 20)));
    }
    console.log(`sequences granted: ${counts.join(', ')}`);
    expect(counts).toEqual([...counts].sort((a, b) => b - a));
    expect(new Set(counts).size).toBeGreaterThan(2);
    expect(await granted(new FakeNativeDevice(), { maxSequences: 5 })).toBe(5);
  });

  it('on a GPU with a KV cache of a given size are as many as it holds', async () => {
    const model = await loadModel(
      fakeGpu(new FakeNativeDevice()),
      { ...options, kvMemoryBytes: 8 << 20 },
      () => undefined,
    );
    const { maxSequences, kvBlocks } = model.forward.limits;
    expect(kvBlocks - 1).toBeGreaterThanOrEqual(maxSequences * blocksFor(2048));
    expect(kvBlocks - 1).toBeLessThan(2 * maxSequences * blocksFor(2048));
  });
});

describe('snapshots of recurrent states', () => {
  const recurrent = { ...options, path: writeRandomFamily('qwen35', { layers: 4, contextLength: CONTEXT }) };
  /** 3 layers of 4 heads of 32 · 32 and 3 rows of 256 channels. */
  const BYTES = 3 * 4 * (4 * 32 * 32 + 3 * 256);
  const granted = async (mebibytes: number, more: object = {}) => {
    const native = new FakeNativeDevice(mebibytes * 2 ** 20);
    const model = await loadModel(fakeGpu(native), { ...recurrent, ...more }, () => undefined);
    const { stateBytes } = model;
    const { maxSequences, kvBlocks, stateSnapshots = 0 } = model.forward.limits;
    const kvBytes = model.forward.cache.bytes;
    model.release();
    expect(native.held).toMatchObject({ bytes: 0, plans: 0, graphs: 0 });
    expect(stateBytes).toBe((2 * (maxSequences + 1) + stateSnapshots) * BYTES);
    return { maxSequences, kvBlocks, stateSnapshots, kvBytes };
  };
  const host = (more: object, path = recurrent.path) =>
    loadModel(openDevice({ kind: 'host', threads: 1 }), { ...recurrent, path, ...more }, () => undefined);

  it('are two a sequence, or as many as are asked for', async () => {
    for (const [more, snapshots] of [
      [{}, 8],
      [{ maxSequences: 3 }, 6],
      [{ stateSnapshots: 0 }, 0],
      [{ stateSnapshots: 5 }, 5],
    ] as const) {
      const model = await host(more);
      expect(model.forward.limits.stateSnapshots).toBe(snapshots);
      model.release();
    }
    expect(await granted(1024)).toMatchObject({ maxSequences: 256, stateSnapshots: 512 });
    expect(await granted(1024, { stateSnapshots: 7 })).toMatchObject({ maxSequences: 256, stateSnapshots: 7 });
  });

  it('take at most a quarter of what a GPU has left, and nothing that one sequence needs', async () => {
    let [some, none] = [0, 0];
    const loads = (mebibytes: number) =>
      granted(mebibytes, { maxSequences: 4, stateSnapshots: 0 }).then(
        () => true,
        () => false,
      );
    let least = 256;
    while (!(await loads(least))) least += 1;
    for (let mebibytes = least - 1; mebibytes < least + 4; mebibytes += 1 / 16) {
      const beside = await granted(mebibytes, { maxSequences: 4 }).catch(() => undefined);
      // Whoever is served without them is served with them.
      expect(beside !== undefined).toBe(await loads(mebibytes));
      if (beside === undefined) continue;
      const { stateSnapshots, kvBytes, kvBlocks } = beside;
      expect(kvBlocks - 1).toBeGreaterThanOrEqual(blocksFor(CONTEXT));
      const isFull = kvBlocks - 1 === 4 * blocksFor(CONTEXT);
      if (!isFull) expect(3 * stateSnapshots * BYTES).toBeLessThanOrEqual(kvBytes + 2 * BYTES);
      if (stateSnapshots < 8) some += 1;
      if (stateSnapshots === 0) none += 1;
    }
    console.log(`of 80 sizes of memory ${some} have fewer than two snapshots a sequence, ${none} have none`);
    expect(some).toBeGreaterThan(none);
    expect(none).toBeGreaterThan(0);
  });

  it('are refused where there is no memory for them, where there are no states, and beyond what tables hold', async () => {
    await expect(granted(300, { stateSnapshots: 2000 })).rejects.toMatchObject({ reason: 'OUT_OF_MEMORY' });
    await expect(host({ stateSnapshots: 1 }, path)).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message: '--state-snapshots is 1; it applies only to models with recurrent state',
    });
    await expect(host({ stateSnapshots: 16_385 })).rejects.toMatchObject({
      reason: 'INVALID_OPTION',
      message: '--state-snapshots is 16385; it must be at most 16384',
    });
  });
});
