import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { type ModelShape, SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import type { NativeGridDim, NativeLaunch } from '../../src/executor/device/addon.js';
import { Device } from '../../src/executor/device/device.js';
import { COMBINED_SPLITS, type KvCacheType } from '../../src/executor/kernels/index.js';
import { countsOf, type GraphBucket, type SamplingMode } from '../../src/executor/load/graph-buckets.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { COUNT_TILES, COUNT_TOKENS, STEP_COUNTS, settle } from '../../src/executor/model/step-counts.js';
import { AMD_TARGETS } from '../../tools/amd-targets.mjs';
import { FakeNativeDevice } from '../doubles/native-device.js';

/** A GPU that keeps the launches of the plan that it captures. */
class PlannedDevice extends FakeNativeDevice {
  override readonly properties;
  readonly recorded: (readonly NativeLaunch[])[] = [];

  constructor(target: string) {
    super(2 ** 40);
    this.properties = { description: 'no device', wave: target.startsWith('gfx9') ? 64 : 32, block: 256 };
  }

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

type Family = 'llama' | 'qwen2' | 'qwen3' | 'qwen3moe';

/** Parts of a family's files that llama's lack. */
const PARTS: Partial<Record<Family, ModelShape['parts']>> = {
  qwen2: { biases: ['attn_q', 'attn_k', 'attn_v'] },
  qwen3: { qkNorm: 'head' },
  qwen3moe: { qkNorm: 'head' },
};

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const files = new Map<string, string>();

function fileOf(architecture: Family, type: string, layers: number, hidden: number): string {
  const name = [architecture, type, layers, hidden].join('-');
  let output = files.get(name);
  if (output === undefined) {
    output = path.join(folder, `${name}.gguf`);
    const experts = architecture === 'qwen3moe' ? { count: 16, used: 8, ffn: 192 } : undefined;
    const parts = PARTS[architecture];
    const shape = {
      ...{ ...SHAPES.tiny!, architecture, layers, headDim: 64, hidden, ffn: 4 * hidden, context: 16_384 },
      ...{ heads: hidden / 64, kvHeads: 2, ...(parts && { parts }), ...(experts && { experts }) },
    };
    synth({ shape, type, output });
    files.set(name, output);
  }
  return output;
}

/** Launches of a captured step of a model of that many layers. @returns the launches for each kind of step */
async function plansOf(
  architecture: Family,
  type: string,
  target: string,
  layers: number,
  steps: readonly (GraphBucket | typeof PROMPT)[],
  hidden = 256,
  kvCacheType: KvCacheType = 'f16',
): Promise<string[][]> {
  const file = fileOf(architecture, type, layers, hidden);
  const limits = { maxContext: 16_384, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const native = new PlannedDevice(target);
  const device = new Device(native, target === HOPPER ? 'cuda' : 'hip', target);
  const model = await loadModel(device, { ...limits, path: file, kvCacheType }, () => undefined);
  const longest = native.recorded.reduce((a, b) => (b.length > a.length ? b : a));
  model.release();
  return steps.map((step) => {
    const counts = step === PROMPT ? countsOfPrompt(64) : countsOf(step);
    return longest.filter((launch) => isLaunched(launch, counts)).map(({ kernel }) => kernel);
  });
}

async function launchesOf(
  architecture: Family,
  type: string,
  target: string,
  layers: number,
  step: GraphBucket | typeof PROMPT,
  hidden?: number,
): Promise<string[]> {
  const [launched] = await plansOf(architecture, type, target, layers, [step], hidden);
  return launched as string[];
}

const HOPPER = 'sm_90';
const GPU = 'gfx1100';

/** A step of one row whose context is of so many splits. */
const alone = (splits: number) => ({ rows: 1, splits, mode: 'largest' }) as const;

/** The most launches from a layer's attention to the next one's. */
function mostOfLayer(launched: readonly string[]): number {
  const attention = launched.flatMap((kernel, at) => (/^attention_(tile_combine|tile_split)/.test(kernel) ? [at] : []));
  expect(attention).toHaveLength(4);
  return Math.max(...attention.slice(1).map((at, i) => at - attention[i]!));
}

// Contexts of one split and of several, which the last of their blocks combines, and of so many that a launch does.
describe.each(AMD_TARGETS.map(({ target }) => target))(
  'on %s a layer takes five launches, and one more of a long context',
  (target) => {
    it.each(['llama', 'qwen2', 'qwen3'] as const)('%s, of all types of weights', async (architecture) => {
      const steps = [1, 2, COMBINED_SPLITS, COMBINED_SPLITS + 1].map(alone);
      for (const type of ['F16', 'BF16', 'Q8_0', 'Q6_K', 'Q3_K_M', 'Q4_K_M', 'Q5_K_M']) {
        const plans = await plansOf(architecture, type, target, 4, steps);
        expect([type, ...plans.map(mostOfLayer)]).toEqual([type, 5, 5, 5, 6]);
      }
    });
  },
);

it('over a cache in q8_0 a layer takes one more: keys are rotated and stored by themselves', async () => {
  const steps = [1, COMBINED_SPLITS, COMBINED_SPLITS + 1].map(alone);
  for (const type of ['F16', 'Q4_K_M']) {
    const plans = await plansOf('qwen2', type, GPU, 4, steps, 256, 'q8_0');
    expect([type, ...plans.map(mostOfLayer)]).toEqual([type, 6, 6, 7]);
  }
});

// Cost of one more layer. There a launch combines what is split: the last block's combine was slower. Heads are rotated where
// they are computed if pairs are neighbours, as llama's are.
it.each([
  ['llama', 'Q8_0', 1024, 5, 6, 6],
  // q and k in one type, v in another; rows of any number of chunks.
  ['llama', 'Q4_K_M', 1024, 5, 6, 6],
  ['llama', 'F16', 896, 5, 6, 6],
  ['qwen2', 'Q8_0', 896, 6, 7, 7],
  // Gate and up that blocks would share unevenly.
  ['llama', 'Q3_K_M', 1280, 6, 7, 7],
  ['qwen2', 'Q5_K_M', 1536, 7, 8, 8],
  ['qwen3', 'F16', 1024, 6, 7, 7],
  // With experts: scores, gate and up, down.
  ['qwen3moe', 'F16', 1024, 7, 8, 8],
  // It has too few chunks for eight waves.
  ['llama', 'Q8_0', 256, 9, 10, 10],
  ['llama', 'F16', 256, 9, 10, 10],
] as const)('on Hopper a layer of %s in %s, %i wide, takes as many as recorded', async (...row) => {
  const [architecture, type, hidden, ...most] = row;
  const steps = [1, COMBINED_SPLITS, COMBINED_SPLITS + 1].map(alone);
  const two = await plansOf(architecture, type, HOPPER, 2, steps, hidden);
  const three = await plansOf(architecture, type, HOPPER, 3, steps, hidden);
  expect(three.map(({ length }, i) => length - two[i]!.length)).toEqual(most);
});

/** Launches behind the last layer of a model. */
async function behindLayers(target: string, mode: SamplingMode, rows = 1): Promise<readonly string[]> {
  const hidden = target === HOPPER ? 1024 : 256;
  const launched = await launchesOf('llama', 'Q8_0', target, 1, { rows, splits: 1, mode }, hidden);
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
  const several = await launchesOf('llama', 'Q8_0', GPU, 1, { rows: 2, splits: 1, mode: 'largest' });
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
