// Published models' sizes of the families that `rocmforge synth` has no shape of, as files of random weights: to measure every family.
// The largest have fewer layers, so that a file is at most some 8 GB.
//
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
//   node build/bench/bench/gpu/family-shapes.js --list
//   node build/bench/bench/gpu/family-shapes.js --shape falcon-h1-7b [--type Q4_K_M] -o FILE
import { parseArgs } from 'node:util';
import { matrixType, type WeightType } from '../../src/cli/synth/mixtures.js';
import { RandomWeights } from '../../src/cli/synth/random-weights.js';
import { typed } from '../../test/support/gguf-builder.js';
import { RANDOM_FAMILIES, type RandomFamilyName } from '../../test/support/random-families.js';
import type { RandomFamily } from '../../test/support/random-family.js';
import { randomModel } from '../../test/support/random-model.js';
import type { ModelSizes } from '../../test/support/random-model-options.js';

interface FamilyShape extends ModelSizes {
  readonly of: RandomFamilyName;
  readonly layers: number;
  readonly hidden: number;
  readonly context?: number;
}

/** A family's keys with others in their place. */
const keys = (
  of: RandomFamilyName,
  changes: NonNullable<RandomFamily['metadata']>,
): NonNullable<RandomFamily['metadata']> => ({
  ...(RANDOM_FAMILIES[of] as RandomFamily).metadata,
  'rope.scaling.type': undefined,
  'rope.scaling.factor': undefined,
  'rope.scaling.original_context_length': undefined,
  'rope.scaling.yarn_log_multiplier': undefined,
  'attention.temperature_scale': undefined,
  'attention.temperature_length': undefined,
  ...changes,
});
const i32s = (values: readonly number[]) => typed.arrayOf(typed.i32, values);
/** By layer: a number where a pattern has a letter, 0 elsewhere. */
const where = (pattern: string, letter: string, layers: number, value: number) =>
  i32s(Array.from({ length: layers }, (_, i) => (pattern[i % pattern.length] === letter ? value : 0)));

const GRANITE_HYBRID = 'MMMMM*MMMM';
const NEMOTRON = 'M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-';
const NEMOTRON_MOE = 'M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M-';
const LFM2 = 'MM*MM*MM*M*M*M*M';
/** Five windowed layers, one global. */
const GEMMA4 = Array.from({ length: 42 }, (_, layer) => layer % 6 !== 5);

export const FAMILY_SHAPES: Readonly<Record<string, FamilyShape>> = {
  'falcon-h1-7b': {
    of: 'falcon-h1',
    ...{ layers: 44, hidden: 3072, ffn: 12_288, heads: [12, 2, 128], vocabulary: 130_048 },
    mamba: { heads: 24, dim: 128, state: 256, groups: 1, isBeside: true },
  },
  'granite-4.0-h-tiny': {
    of: 'granitehybrid',
    ...{ layers: 40, hidden: 1536, ffn: 512, heads: [12, 4, 128], vocabulary: 100_352, pattern: GRANITE_HYBRID },
    mamba: { heads: 48, dim: 64, state: 128, groups: 1 },
    experts: { count: 64, used: 6, ffn: 512, sharedFfn: 1024 },
    metadata: keys('granitehybrid', { 'attention.head_count_kv': where(GRANITE_HYBRID, '*', 40, 4) }),
  },
  'nemotron-nano-9b-v2': {
    of: 'nemotron_h',
    ...{ layers: 56, hidden: 4480, ffn: 15_680, heads: [40, 8, 128], vocabulary: 131_072, pattern: NEMOTRON },
    biases: [],
    mamba: { heads: 128, dim: 80, state: 128, groups: 8 },
    metadata: keys('nemotron_h', {
      'attention.head_count_kv': where(NEMOTRON, '*', 56, 8),
      feed_forward_length: where(NEMOTRON, '-', 56, 15_680),
    }),
  },
  'nemotron-3-nano-13-layers': {
    of: 'nemotron_h_moe',
    ...{ layers: 13, hidden: 2688, ffn: 1856, heads: [32, 2, 128], vocabulary: 131_072, pattern: NEMOTRON_MOE },
    mamba: { heads: 64, dim: 64, state: 128, groups: 8 },
    experts: { count: 128, used: 6, ffn: 1856, sharedFfn: 3712, hasChoiceBias: true },
    metadata: keys('nemotron_h_moe', {
      'attention.head_count_kv': where(NEMOTRON_MOE, '*', 13, 2),
      feed_forward_length: where(NEMOTRON_MOE, '-', 13, 1856),
      expert_feed_forward_length: 1856,
    }),
  },
  'deepseek-v2-lite': {
    of: 'deepseek2-lite',
    ...{ layers: 27, hidden: 2048, ffn: 10_944, heads: [16, 16, 128], vocabulary: 102_400 },
    latents: { rank: 512, plain: 128, rotated: 64, valueDim: 128 },
    experts: { count: 64, used: 6, ffn: 1408, sharedFfn: 2816, dense: 1 },
    metadata: keys('deepseek2-lite', {}),
  },
  'deepseek-v3-2-layers': {
    of: 'deepseek2',
    ...{ layers: 2, hidden: 7168, ffn: 18_432, heads: [128, 128, 128], vocabulary: 129_280 },
    latents: { queryRank: 1536, rank: 512, plain: 128, rotated: 64, valueDim: 128 },
    experts: { count: 256, used: 8, ffn: 2048, sharedFfn: 2048, dense: 1, hasChoiceBias: true },
    metadata: keys('deepseek2', { expert_group_count: 8, expert_group_used_count: 4 }),
  },
  'glm-4.5-air-5-layers': {
    of: 'glm4moe',
    ...{ layers: 5, hidden: 4096, ffn: 10_944, heads: [96, 8, 128], vocabulary: 151_552 },
    experts: { count: 128, used: 8, ffn: 1408, sharedFfn: 1408, dense: 1, hasChoiceBias: true },
    metadata: keys('glm4moe', { 'rope.dimension_count': 64, expert_shared_count: 1 }),
  },
  'qwen3-next-80b-8-layers': {
    of: 'qwen3next',
    ...{ layers: 8, hidden: 2048, ffn: 5120, heads: [16, 2, 256], vocabulary: 151_936 },
    nets: { keyHeads: 16, valueHeads: 32, dim: 128, isGrouped: true },
    experts: { count: 512, used: 10, ffn: 512, sharedFfn: 512, isGated: true },
    metadata: keys('qwen3next', { 'rope.dimension_count': 64 }),
  },
  'qwen3.5-35b-a3b-12-layers': {
    of: 'qwen35moe',
    ...{ layers: 12, hidden: 2048, ffn: 5120, heads: [16, 2, 256], vocabulary: 248_320 },
    nets: { keyHeads: 16, valueHeads: 32, dim: 128 },
    experts: { count: 256, used: 8, ffn: 512, sharedFfn: 512, isGated: true },
    metadata: keys('qwen35moe', { 'rope.dimension_count': 64, 'rope.dimension_sections': i32s([11, 11, 10, 0]) }),
  },
  'gemma-4-e4b': {
    of: 'gemma4',
    ...{ layers: 42, hidden: 2560, ffn: 10_240, heads: [8, 2, 512], vocabulary: 262_144, layerInputs: 256 },
    layerShape: (layer) => ({
      ...{ kvHeads: 2, headDim: GEMMA4[layer] ? 256 : 512, ffn: 10_240, isShared: layer >= 24 },
    }),
    metadata: keys('gemma4', {
      'attention.sliding_window': 512,
      'attention.sliding_window_pattern': typed.arrayOf(typed.bool, GEMMA4),
      'attention.key_length': 512,
      'attention.value_length': 512,
      'attention.key_length_swa': 256,
      'attention.value_length_swa': 256,
      'rope.dimension_count': 512,
      'rope.dimension_count_swa': 256,
      'attention.shared_kv_layers': 18,
      final_logit_softcapping: typed.f32(30),
    }),
    vectors: {
      'rope_freqs.weight': { length: 256, mean: 1, values: [...Array(64).fill(1), ...Array(192).fill(1e30)] },
    },
  },
  'gemma-3n-e4b': {
    of: 'gemma3n',
    ...{ layers: 35, hidden: 2048, ffn: 16_384, heads: [8, 2, 256], vocabulary: 262_144, layerInputs: 256 },
    layerShape: () => ({ kvHeads: 2, headDim: 256, ffn: 16_384 }),
    metadata: keys('gemma3n', {
      'attention.sliding_window': 512,
      'attention.sliding_window_pattern': 5,
      'attention.shared_kv_layers': 15,
      activation_sparsity_scale: undefined,
    }),
  },
  'phi-3.5-moe-5-layers': {
    of: 'phimoe',
    ...{ layers: 5, hidden: 4096, ffn: 6400, heads: [32, 8, 128], vocabulary: 32_064 },
    experts: { count: 16, used: 2, ffn: 6400 },
    metadata: keys('phimoe', { 'rope.dimension_count': 128 }),
    vectors: {
      'rope_factors_short.weight': { length: 64, mean: 1.2 },
      'rope_factors_long.weight': { length: 64, mean: 3 },
    },
  },
  'open-llama-3b': {
    of: 'llama-heads-100',
    ...{ layers: 26, hidden: 3200, ffn: 8640, heads: [32, 32, 100], vocabulary: 32_000 },
  },
  'danube3-4b': {
    of: 'llama-heads-120',
    ...{ layers: 24, hidden: 3840, ffn: 10_240, heads: [32, 8, 120], vocabulary: 32_000 },
  },
  'granite-3.3-8b': {
    of: 'granite',
    ...{ layers: 40, hidden: 4096, ffn: 12_800, heads: [32, 8, 128], vocabulary: 49_159 },
  },
  'granite-3.1-3b-a800m': {
    of: 'granitemoe',
    ...{ layers: 32, hidden: 1536, ffn: 512, heads: [24, 8, 64], vocabulary: 49_155 },
    experts: { count: 40, used: 8, ffn: 512 },
  },
  'command-r7b': {
    of: 'cohere2',
    ...{ layers: 32, hidden: 4096, ffn: 14_336, heads: [32, 8, 128], vocabulary: 256_000 },
    metadata: keys('cohere2', { 'attention.sliding_window': 4096 }),
  },
  'command-r-10-layers': {
    of: 'command-r',
    ...{ layers: 10, hidden: 8192, ffn: 22_528, heads: [64, 64, 128], vocabulary: 256_000 },
  },
  'exaone-4.0-1.2b': {
    of: 'exaone4-global',
    ...{ layers: 30, hidden: 2048, ffn: 4096, heads: [32, 8, 64], vocabulary: 102_400, isTied: true },
  },
  'seed-oss-36b-12-layers': {
    of: 'seed_oss',
    ...{ layers: 12, hidden: 5120, ffn: 27_648, heads: [80, 8, 128], vocabulary: 155_136 },
  },
  'olmoe-1b-7b': {
    of: 'olmoe',
    ...{ layers: 16, hidden: 2048, ffn: 1024, heads: [16, 16, 128], vocabulary: 50_304 },
    experts: { count: 64, used: 8, ffn: 1024 },
  },
  'ernie-4.5-21b-a3b-14-layers': {
    of: 'ernie4_5-moe',
    ...{ layers: 14, hidden: 2560, ffn: 12_288, heads: [20, 4, 128], vocabulary: 103_424 },
    experts: { count: 64, used: 6, ffn: 1536, sharedFfn: 3072, dense: 1, hasChoiceBias: true },
    metadata: keys('ernie4_5-moe', { expert_shared_feed_forward_length: 3072 }),
  },
  'dots1-4-layers': {
    of: 'dots1',
    ...{ layers: 4, hidden: 4096, ffn: 10_944, heads: [32, 32, 128], vocabulary: 152_064 },
    experts: { count: 128, used: 6, ffn: 1408, sharedFfn: 2816, dense: 1, hasChoiceBias: true },
  },
  'lfm2-1.2b': {
    of: 'lfm2',
    ...{ layers: 16, hidden: 2048, ffn: 8192, heads: [32, 8, 64], vocabulary: 65_536, pattern: LFM2 },
    metadata: keys('lfm2', { 'attention.head_count_kv': where(LFM2, '*', 16, 8) }),
  },
  'lfm2-8b-a1b': {
    of: 'lfm2moe',
    ...{ layers: 24, hidden: 2048, ffn: 7168, heads: [32, 8, 64], vocabulary: 65_536, pattern: 'MM*M' },
    experts: { count: 32, used: 4, ffn: 1792, dense: 2, hasChoiceBias: true },
    metadata: keys('lfm2moe', {
      'attention.head_count_kv': where('MM*M', '*', 24, 8),
      leading_dense_block_count: 2,
      expert_feed_forward_length: 1792,
    }),
  },
  'ling-mini-2.0': {
    of: 'bailingmoe2',
    ...{ layers: 20, hidden: 2048, ffn: 5120, heads: [16, 4, 128], vocabulary: 157_184 },
    experts: { count: 256, used: 8, ffn: 512, sharedFfn: 512, dense: 1, hasChoiceBias: true },
    metadata: keys('bailingmoe2', {
      'rope.dimension_count': 64,
      expert_shared_count: 1,
      expert_group_count: 8,
      expert_group_used_count: 4,
    }),
  },
  'minimax-m2-3-layers': {
    of: 'minimax-m2',
    ...{ layers: 3, hidden: 3072, ffn: 1536, heads: [48, 8, 128], vocabulary: 200_064 },
    experts: { count: 256, used: 8, ffn: 1536, hasChoiceBias: true },
    metadata: keys('minimax-m2', { 'rope.dimension_count': 64, expert_feed_forward_length: 1536 }),
  },
  'afm-4.5b': {
    of: 'arcee',
    ...{ layers: 36, hidden: 2560, ffn: 18_432, heads: [20, 4, 128], vocabulary: 128_000, biases: [] },
  },
  'glm-4-9b-chat': {
    of: 'chatglm',
    ...{ layers: 40, hidden: 4096, ffn: 13_696, heads: [32, 2, 128], vocabulary: 151_552 },
    metadata: keys('chatglm', { 'rope.dimension_count': 64 }),
  },
  'ministral-3-8b': {
    of: 'mistral3',
    ...{ layers: 34, hidden: 4096, ffn: 14_336, heads: [32, 8, 128], vocabulary: 131_072 },
    metadata: {},
  },
  'qwen1.5-moe-a2.7b': {
    of: 'qwen2moe',
    ...{ layers: 24, hidden: 2048, ffn: 5632, heads: [16, 16, 128], vocabulary: 151_936 },
    experts: { count: 60, used: 4, ffn: 1408, sharedFfn: 5632, isGated: true },
  },
  'starcoder2-7b': {
    of: 'starcoder2',
    ...{ layers: 32, hidden: 4608, ffn: 18_432, heads: [36, 4, 128], vocabulary: 49_152 },
  },
  'falcon-40b-12-layers': {
    of: 'falcon-40b',
    ...{ layers: 12, hidden: 8192, ffn: 32_768, heads: [128, 8, 64], vocabulary: 65_024 },
  },
  'phi-2': {
    of: 'phi2',
    ...{ layers: 32, hidden: 2560, ffn: 10_240, heads: [32, 32, 80], vocabulary: 51_200 },
    metadata: keys('phi2', { 'rope.dimension_count': 32 }),
  },
  'pythia-6.9b': {
    of: 'gptneox',
    ...{ layers: 32, hidden: 4096, ffn: 16_384, heads: [32, 32, 128], vocabulary: 50_432 },
    metadata: keys('gptneox', { 'rope.dimension_count': 32 }),
  },
  'apertus-8b': {
    of: 'apertus',
    ...{ layers: 32, hidden: 4096, ffn: 21_504, heads: [32, 8, 128], vocabulary: 131_072 },
    fileMetadata: {
      'xielu.alpha_n': typed.f32(0.5),
      'xielu.alpha_p': typed.f32(0.5),
      'xielu.beta': typed.f32(0.5),
      'xielu.eps': typed.f32(-1e-6),
    },
    vectors: {},
  },
  'hunyuan-7b': {
    of: 'hunyuan-dense',
    ...{ layers: 32, hidden: 4096, ffn: 14_336, heads: [32, 8, 128], vocabulary: 128_256 },
  },
  'hunyuan-a13b-6-layers': {
    of: 'hunyuan-moe',
    ...{ layers: 6, hidden: 4096, ffn: 3072, heads: [32, 8, 128], vocabulary: 128_256 },
    experts: { count: 64, used: 8, ffn: 3072, sharedFfn: 3072 },
    metadata: keys('hunyuan-moe', { expert_feed_forward_length: 3072 }),
  },
  'deepseek-moe-16b': {
    of: 'deepseek',
    ...{ layers: 28, hidden: 2048, ffn: 10_944, heads: [16, 16, 128], vocabulary: 102_400 },
    experts: { count: 64, used: 6, ffn: 1408, sharedFfn: 2816, dense: 1 },
  },
  'mellum-2-12b': {
    of: 'mellum',
    ...{ layers: 28, hidden: 2304, ffn: 7168, heads: [32, 4, 128], vocabulary: 98_304 },
    experts: { count: 64, used: 8, ffn: 896 },
    metadata: keys('mellum', { 'attention.sliding_window': 1024 }),
  },
};

/** Writes a shape's file. @throws Error for a shape that is not known */
export function writeShape(name: string, weights: WeightType, file: string, changes: Partial<FamilyShape> = {}): void {
  const known = FAMILY_SHAPES[name];
  if (known === undefined)
    throw new Error(`--shape ${name} is unknown; give one of ${Object.keys(FAMILY_SHAPES).join()}`);
  const { of, layers, context = 32_768, ...sizes } = { ...known, ...changes };
  const builder = randomModel({ family: of, layers, contextLength: context, type: 'F16', sizes });
  const shape = { layers, tied: (sizes.isTied ?? (RANDOM_FAMILIES[of] as RandomFamily).isTied) === true };
  for (const { name: tensor, dims } of builder.withoutData) {
    // Quantizers leave AltUp and LAuReL as they are.
    if (/altup_|laurel_/.test(tensor)) continue;
    const [, layer, kind] = /^(?:blk\.(\d+)\.)?([^.]+)/.exec(tensor)!;
    builder.retype(
      tensor,
      matrixType(weights, shape, kind!, layer === undefined ? undefined : Number(layer), dims[0]!),
    );
  }
  const random = new RandomWeights();
  builder.write(file, (_, type, dims) => random.bytes(type, dims));
}

const { values: options } = parseArgs({
  options: {
    list: { type: 'boolean', default: false },
    shape: { type: 'string' },
    layers: { type: 'string' },
    type: { type: 'string', default: 'Q4_K_M' },
    output: { type: 'string', short: 'o' },
  },
});
if (options.list) console.log(Object.keys(FAMILY_SHAPES).join('\n'));
else {
  const changes = options.layers === undefined ? {} : { layers: Number(options.layers) };
  writeShape(options.shape as string, options.type as WeightType, options.output as string, changes);
}
