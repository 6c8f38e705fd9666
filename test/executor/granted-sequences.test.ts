import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/loaded-model.js';
import { blocksFor } from '../../src/executor/model/slot-layout.js';
import { openDevice } from '../../src/executor/open-device.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { writeRandomModel } from '../support/random-model.js';

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
