import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth.js';
import type { NativeGridDim, NativeLaunch } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { countsOf, type GraphBucket } from '../../src/executor/graph-buckets.js';
import { loadModel } from '../../src/executor/loaded-model.js';
import { FakeNativeDevice } from '../doubles/native-device.js';

/** A GPU that keeps the launches of the plan that it captures. */
class PlannedDevice extends FakeNativeDevice {
  override readonly properties = { description: 'no device', wave: 32, block: 256 };
  readonly recorded: (readonly NativeLaunch[])[] = [];

  override createPlan(launches: readonly NativeLaunch[], countSlots: number, captureFrom: number): number {
    this.recorded.push(launches);
    return super.createPlan(launches, countSlots, captureFrom);
  }
}

function isLaunched({ when, grid }: NativeLaunch, counts: Int32Array): boolean {
  const count = counts[when?.count ?? 0] as number;
  if (when !== undefined && (count < when.atLeast || count > when.atMost)) return false;
  return grid.every((dim) => blocksIn(dim, counts) > 0);
}

function blocksIn(dim: NativeGridDim, counts: Int32Array): number {
  if (!('most' in dim)) return dim.constant;
  return Math.min(dim.most, Math.max(0, (counts[dim.count] as number) - dim.first)) * dim.times;
}

/** What a captured step of a model of that many layers launches. */
async function launchesOf(
  architecture: 'llama' | 'qwen2' | 'qwen3' | 'qwen3moe',
  type: string,
  target: string,
  layers: number,
  step: GraphBucket,
  hidden = 256,
) {
  const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'model.gguf');
  const shape = {
    ...SHAPES.tiny!,
    architecture,
    layers,
    headDim: 64,
    hidden,
    ffn: 4 * hidden,
    heads: hidden / 64,
    kvHeads: 2,
  };
  const experts = architecture === 'qwen3moe' ? { count: 16, used: 8, ffn: 192 } : undefined;
  const parts = architecture.startsWith('qwen3') ? ({ headNorms: 'head' } as const) : undefined;
  synth({ shape: { ...shape, ...(parts && { parts }), ...(experts && { experts }) }, type, output });
  const limits = { maxContext: 256, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const native = new PlannedDevice(2 ** 40);
  const device = new Device(native, target === 'sm_90' ? 'cuda' : 'hip', target);
  const model = await loadModel(device, { ...limits, path: output, kvCacheType: 'f16' }, () => undefined);
  const counts = countsOf(step);
  const longest = native.recorded.reduce((a, b) => (b.length > a.length ? b : a));
  const launched = longest.filter((launch) => isLaunched(launch, counts)).map(({ kernel }) => kernel);
  model.release();
  return launched;
}

const GPU = 'double';
const HOPPER = 'sm_90';

// Of one row whose context is folded from two splits: what a layer more costs.
it.each([
  ['llama', 'Q8_0', GPU, 6],
  ['qwen2', 'Q8_0', GPU, 6],
  ['qwen3', 'Q8_0', GPU, 6],
  ['llama', 'F16', GPU, 9],
  ['llama', 'Q8_0', HOPPER, 7, 1024],
  ['qwen3', 'F16', HOPPER, 7, 1024],
  // Of a context of one split, which is not folded.
  ['llama', 'Q8_0', HOPPER, 6, 1024, 1],
  ['qwen3', 'F16', HOPPER, 6, 1024, 1],
  // With experts: scores, gate and up, down.
  ['qwen3moe', 'F16', HOPPER, 8, 1024],
  ['qwen3moe', 'F16', HOPPER, 7, 1024, 1],
  // Of rows that are not of whole batches.
  ['llama', 'Q8_0', HOPPER, 10],
  ['llama', 'F16', HOPPER, 10],
] as const)(
  'a layer of %s in %s takes as many launches as recorded, on %s',
  async (architecture, type, target, most, hidden?: number, splits?: number) => {
    const step = { rows: 1, splits: splits ?? 2 };
    const [two, three] = [
      await launchesOf(architecture, type, target, 2, step, hidden),
      await launchesOf(architecture, type, target, 3, step, hidden),
    ];
    expect(three.length - two.length).toBe(most);
  },
);
