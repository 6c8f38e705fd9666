import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth.js';
import type { NativeGridDim, NativeLaunch } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { countsOf, type GraphBucket, type SamplingWay } from '../../src/executor/graph-buckets.js';
import { FOLDED_SPLITS } from '../../src/executor/kernels/index.js';
import { loadModel } from '../../src/executor/loaded-model.js';
import { COUNT_TILES, COUNT_TOKENS, STEP_COUNTS, settle } from '../../src/executor/model/step-counts.js';
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

/** A step of a prompt whose end comes later. */
const PROMPT = 'prompt';
function countsOfPrompt(rows: number): Int32Array {
  const counts = new Int32Array(STEP_COUNTS);
  counts[COUNT_TOKENS] = rows;
  counts[COUNT_TILES] = rows / 16;
  settle(counts);
  return counts;
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
  step: GraphBucket | typeof PROMPT,
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
    context: 16_384,
  };
  const experts = architecture === 'qwen3moe' ? { count: 16, used: 8, ffn: 192 } : undefined;
  const parts = architecture.startsWith('qwen3') ? ({ headNorms: 'head' } as const) : undefined;
  synth({ shape: { ...shape, ...(parts && { parts }), ...(experts && { experts }) }, type, output });
  const limits = { maxContext: 16_384, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const native = new PlannedDevice(2 ** 40);
  const device = new Device(native, target === 'sm_90' ? 'cuda' : 'hip', target);
  const model = await loadModel(device, { ...limits, path: output, kvCacheType: 'f16' }, () => undefined);
  const counts = step === PROMPT ? countsOfPrompt(64) : countsOf(step);
  const longest = native.recorded.reduce((a, b) => (b.length > a.length ? b : a));
  const launched = longest.filter((launch) => isLaunched(launch, counts)).map(({ kernel }) => kernel);
  model.release();
  return launched;
}

const GPU = 'double';
const HOPPER = 'sm_90';

// Of one row whose context is of two splits, which are folded: what a layer more costs.
it.each([
  ['llama', 'Q8_0', GPU, 5],
  ['qwen2', 'Q8_0', GPU, 5],
  ['qwen3', 'Q8_0', GPU, 5],
  ['llama', 'F16', GPU, 5],
  ['qwen3', 'BF16', GPU, 5],
  ['llama', 'Q8_0', HOPPER, 6, 1024],
  ['qwen3', 'F16', HOPPER, 6, 1024],
  // Of a context of one split, and of so many that a launch folds them.
  ['llama', 'Q8_0', HOPPER, 6, 1024, 1],
  ['qwen3', 'F16', HOPPER, 6, 1024, 1],
  ['llama', 'Q8_0', GPU, 5, 256, 1],
  ['llama', 'Q8_0', GPU, 5, 256, FOLDED_SPLITS],
  ['llama', 'Q8_0', GPU, 6, 256, FOLDED_SPLITS + 1],
  ['llama', 'Q8_0', HOPPER, 6, 1024, FOLDED_SPLITS],
  ['llama', 'Q8_0', HOPPER, 7, 1024, FOLDED_SPLITS + 1],
  // With experts: scores, gate and up, down.
  ['qwen3moe', 'F16', HOPPER, 7, 1024],
  ['qwen3moe', 'F16', HOPPER, 7, 1024, 1],
  // Of rows that are not of whole batches.
  ['llama', 'Q8_0', HOPPER, 9],
  ['llama', 'F16', HOPPER, 9],
] as const)(
  'a layer of %s in %s takes as many launches as recorded, on %s',
  async (architecture, type, target, most, hidden?: number, splits?: number) => {
    const step = { rows: 1, splits: splits ?? 2, way: 'largest' } as const;
    const [two, three] = [
      await launchesOf(architecture, type, target, 2, step, hidden),
      await launchesOf(architecture, type, target, 3, step, hidden),
    ];
    expect(three.length - two.length).toBe(most);
  },
);

/** What is launched behind the last layer of a model. */
async function behindLayers(target: string, way: SamplingWay, rows = 1): Promise<readonly string[]> {
  const hidden = target === HOPPER ? 1024 : 256;
  const launched = await launchesOf('llama', 'Q8_0', target, 1, { rows, splits: 1, way }, hidden);
  const last = launched.findLastIndex((name) => /^(linear|matmul)_summed/.test(name) || name === 'swiglu_columns_f16');
  return launched.slice(last + 1);
}

const ADJUSTED = ['copy_adjusted', 'penalties', 'logit_bias'];
const FILTERED = ['sample_bins', 'sample_candidates', 'sample_filter'];
const TOLD = ['likeliest_parts', 'log_softmax_merge'];

it.each([
  [HOPPER, 'linear_normed_q8'],
  [GPU, 'matmul_normed_q8_0'],
] as const)('a row that is sampled alone launches on %s what its token needs, and no more', async (target, head) => {
  expect(await behindLayers(target, 'largest')).toEqual([head, 'sample_best', 'sample_pick']);
  expect(await behindLayers(target, 'drawn')).toEqual([head, 'sample_best', ...FILTERED, 'sample_draw', 'sample_pick']);
  const all = [...ADJUSTED, 'sample_best', ...FILTERED, 'sample_draw', 'sample_pick', 'token_history', ...TOLD];
  expect(await behindLayers(target, 'any')).toEqual([head, ...all]);
});

it('of several rows those that are sampled are gathered', async () => {
  const several = await launchesOf('llama', 'Q8_0', GPU, 1, { rows: 2, splits: 1, way: 'largest' });
  expect(several.slice(-5)).toEqual([
    'gather_rows',
    'rms_norm_quantize',
    'matmul_packed_q8_0',
    'sample_best',
    'sample_pick',
  ]);
});

it('of a prompt’s step that samples nothing no logits are computed', async () => {
  const kinds = [
    ['llama', 'Q8_0', HOPPER, 1024],
    ['llama', 'Q8_0', GPU, 256],
    ['llama', 'F16', GPU, 256],
  ] as const;
  for (const [architecture, type, target, hidden] of kinds) {
    const [one, two] = [
      await launchesOf(architecture, type, target, 1, PROMPT, hidden),
      await launchesOf(architecture, type, target, 2, PROMPT, hidden),
    ];
    // The embedding, and a layer.
    expect(one.length).toBe(1 + two.length - one.length);
  }
});
