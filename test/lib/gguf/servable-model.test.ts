// One file because it is one table of headers that load, or are refused by name.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { ALIASES, type AliasName } from '../../../src/lib/gguf/architectures.js';
import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { readServableModel } from '../../../src/lib/gguf/servable-model.js';
import { packageRoot } from '../../../src/shared/package.js';
import { type BuilderValue, typed } from '../../support/gguf-builder.js';
import {
  architectureOf,
  RANDOM_ALIAS_NAMES,
  RANDOM_FAMILIES,
  RANDOM_FAMILY_NAMES,
  type RandomFamilyName,
} from '../../support/random-families.js';
import { layersOf, randomModel } from '../../support/random-model.js';
import type { RandomModelOptions } from '../../support/random-model-options.js';
import { sharedPath } from '../../support/shared-data.js';

const servable = (options: RandomModelOptions = {}) => readServableModel(randomModel(options).read());
const withKey = (key: string, value: BuilderValue | undefined) => servable({ metadata: { [`llama.${key}`]: value } });
const refused = (reason: string, message: string | RegExp) =>
  expect.objectContaining({ reason, message: expect.stringMatching(message) });

test.each(['llama', 'qwen2'] as const)('a %s whose every key is understood is taken', (architecture) => {
  expect(servable({ family: architecture })).toMatchObject({
    architecture,
    layers: 2,
    vocabularySize: 299,
    vocabularyRows: 299,
  });
});

const real = ['stories260K-f32', 'tiny-llama-q4_k_m', 'tiny-llama3-q8_0', 'tiny-qwen2-q8_0'].map((name) => ({
  name,
  path: sharedPath(`data/models/${name}.gguf`),
}));
test.each(real)('a real file is taken: $name', ({ path }) => {
  if (path === undefined) return;
  const source = new FileByteSource(path);
  expect(readServableModel(readGguf(source)).layers).toBeGreaterThan(0);
  source.close();
});

// As llama.cpp's converter writes them for LlamaForCausalLM, MistralForCausalLM and Qwen2ForCausalLM.
test.each<[string, Readonly<Record<string, BuilderValue>>]>([
  [
    'Llama 3',
    { vocab_size: 299, 'rope.dimension_count': 16, 'attention.key_length': 16, 'attention.value_length': 16 },
  ],
  ['Mistral', { vocab_size: 299, 'rope.dimension_count': 16, 'rope.freq_base': typed.f32(1e6) }],
  ['an old conversion', { tensor_data_layout: 'Meta AI original pth', 'rope.scaling.finetuned': false }],
  ['a config.json with both epsilons', { 'attention.layer_norm_epsilon': typed.f32(1e-5) }],
  ['an embedding model of the same shape', { pooling_type: 3, 'attention.causal': true }],
  ['zeros for what is not there', { expert_count: 0, expert_used_count: 0, 'attention.sliding_window': 0 }],
])('what converters write is taken: %s', (_, keys) => {
  const metadata = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`llama.${key}`, value]));
  expect(() => servable({ metadata })).not.toThrow();
});

test.each<[string, BuilderValue]>([
  ['attention.causal', false],
  ['attention.sliding_window', 4096],
  ['attention.clamp_kqv', typed.f32(8)],
  ['attention.max_alibi_bias', typed.f32(8)],
  ['logit_scale', typed.f32(0.1)],
  ['residual_scale', typed.f32(0.2)],
  ['embedding_scale', typed.f32(12)],
  ['attn_logit_softcapping', typed.f32(50)],
  ['final_logit_softcapping', typed.f32(30)],
  ['use_parallel_residual', true],
  ['rope.dimension_sections', typed.array(typed.i32(8), typed.i32(8))],
  ['expert_shared_count', 1],
  ['expert_weights_scale', typed.f32(2.5)],
  ['leading_dense_block_count', 1],
  ['something_of_next_year', 'yes'],
])('a key that nothing computes is refused by name: %s', (key, value) => {
  const name = key.replaceAll('.', '\\.');
  expect(() => withKey(key, value)).toThrow(refused('MODEL_UNSUPPORTED', `"llama\\.${name}" is .*not understood`));
});

test('what converters and quantizers note beside the model is taken', () => {
  const metadata: Readonly<Record<string, BuilderValue>> = {
    'general.type': 'model',
    'general.quantization_version': 2,
    'general.file_type': 15,
    'general.tags': ['x'],
    'general.base_model.0.repo_url': 'x',
    'general.sampling.temp': typed.f32(0.6),
    'general.license.link': 'x',
    'split.no': 0,
    'split.count': 0,
    'split.tensors.count': 20,
    'quantize.imatrix.entries_count': 7,
    'mradermacher.quantize_version': '2',
    'mradermacher.convert_type': 'hf',
    'clip.has_vision_encoder': false,
  };
  expect(() => servable({ metadata })).not.toThrow();
});

test.each<[string, BuilderValue]>([
  ['general.type', 'adapter'],
  ['general.quantization_version', 99],
  ['adapter.type', 'lora'],
  ['qwen2.attention.sliding_window', 16],
  ['gemma2.final_logit_softcapping', typed.f32(30)],
  ['mistral3.rope.freq_base', typed.f32(1e6)],
  ['qwen3moe.expert_count', 8],
  ['llama4.interleave_moe_layer_step', 2],
  ['granite.residual_scale', typed.f32(0.2)],
  ['mamba.ssm.conv_kernel', 4],
  ['phi3.context_length', 4096],
])('a key that says this is something other than a llama is refused by name: %s', (key, value) => {
  const message = `"${key.replaceAll('.', '\\.')}" is .*not understood`;
  expect(() => servable({ metadata: { [key]: value } })).toThrow(refused('MODEL_UNSUPPORTED', message));
});

test.each([
  [
    'qwen2',
    { expert_count: 8, expert_used_count: 2 },
    'MODEL_UNSUPPORTED',
    /"qwen2\.expert_count" is 8: qwen2 has no experts/,
  ],
  ['llama', { expert_count: 513, expert_used_count: 2 }, 'MODEL_UNSUPPORTED', 'kernels hold at most 512'],
  ['llama', { expert_count: 64, expert_used_count: 33 }, 'MODEL_UNSUPPORTED', 'kernels hold 32'],
  ['llama', { expert_count: 8, expert_used_count: 9 }, 'GGUF_INVALID', 'more than the 8 experts there are'],
  ['llama', { expert_count: 8, expert_used_count: 2, expert_group_count: 2 }, 'MODEL_UNSUPPORTED', 'expert groups'],
  [
    'llama',
    { expert_count: 8, expert_used_count: 2 },
    'GGUF_INVALID',
    '"llama.expert_count" is 8, but no tensor has a side of 8',
  ],
] as const)('experts that are not there, or more than kernels hold: %s %j', (family, keys, reason, what) => {
  const metadata = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`${family}.${key}`, value]));
  expect(() => servable({ family, metadata })).toThrow(refused(reason, what));
});

const MIXTURES = RANDOM_FAMILY_NAMES.filter((family) => 'experts' in RANDOM_FAMILIES[family]);
const ofMixture = (family: RandomFamilyName, keys: Readonly<Record<string, BuilderValue | undefined>>) => {
  const entries = Object.entries(keys).map(([key, value]) => [`${architectureOf(family)}.${key}`, value] as const);
  const layers = 'layers' in RANDOM_FAMILIES[family] ? layersOf(family) : 2;
  return servable({ family, layers, metadata: Object.fromEntries(entries) });
};

test.each(MIXTURES.filter((family) => family !== 'deepseek2' && family !== 'bailingmoe2'))(
  'one group of experts is none, and nothing else about groups is passed over: %s',
  (family) => {
    expect(() => ofMixture(family, { expert_group_count: 1, expert_group_used_count: 1 })).not.toThrow();
    for (const key of ['expert_group_count', 'expert_group_used_count']) {
      expect(() => ofMixture(family, { [key]: 2 })).toThrow(
        refused('MODEL_UNSUPPORTED', `${key}" is 2: expert groups`),
      );
      expect(() => ofMixture(family, { [key]: typed.f32(0.5) })).toThrow(
        refused('GGUF_INVALID', `${key}" is 0.5 instead of a positive integer`),
      );
    }
  },
);

test.each(['deepseek2', 'bailingmoe2'] as const)(
  'groups of experts are read, and refused where they are none: %s',
  (family) => {
    const groupsOf = (count: number, used: number) =>
      ofMixture(family, { expert_group_count: count, expert_group_used_count: used }).experts!.groups;
    expect(groupsOf(4, 2)).toEqual({ count: 4, used: 2 });
    expect(groupsOf(1, 1)).toBeUndefined();
    expect(groupsOf(0, 0)).toBeUndefined();
    for (const [count, used, problem] of [
      [3, 1, 'is 3, which makes no groups of 16 experts'],
      [16, 8, 'is 16, which makes no groups of 16 experts'],
      [4, 5, 'is 5 of 4 groups'],
      [4, 0, 'is 0 of 4 groups'],
      [8, 1, 'is 1: so many groups have fewer than 4 experts'],
      [1, 2, 'is 2, of 1 groups'],
    ] as const)
      expect(() => groupsOf(count, used)).toThrow(refused('GGUF_INVALID', problem));
  },
);

test('of Nemotron-H the epsilon of RMSNorm counts, or that of LayerNorm in its place', () => {
  const epsilonOf = (rms: number | undefined, layer: number | undefined) => {
    const keys = { 'attention.layer_norm_rms_epsilon': rms, 'attention.layer_norm_epsilon': layer };
    const values = Object.entries(keys).map(([key, value]) => [key, value && typed.f32(value)] as const);
    return ofMixture('nemotron_h_moe', Object.fromEntries(values)).rmsNormEpsilon;
  };
  expect(epsilonOf(2 ** -17, 2 ** -10)).toBe(2 ** -17);
  expect(epsilonOf(2 ** -17, undefined)).toBe(2 ** -17);
  expect(epsilonOf(undefined, 2 ** -10)).toBe(2 ** -10);
  expect(() => epsilonOf(undefined, undefined)).toThrow(refused('GGUF_INVALID', 'layer_norm_rms_epsilon" is missing'));
});

test('of Nemotron-H a latent size of experts is refused by name', () => {
  expect(() => ofMixture('nemotron_h_moe', { moe_latent_size: 32 })).toThrow(
    refused('MODEL_UNSUPPORTED', 'moe_latent_size'),
  );
});

test.each(MIXTURES)(
  'what weights of experts are made of is read, or refused unless it is what is computed: %s',
  (family) => {
    const { scoring, isNormalized } = ofMixture(family, {}).experts!;
    const isConfigured = ['glm4moe', 'dots1', 'deepseek2', 'bailingmoe2'].includes(family);
    const hasWeights = isConfigured || ['nemotron_h_moe', 'deepseek', 'bailingmoe'].includes(family);
    const functions = ['none', 'softmax', 'sigmoid', 'chosen'];
    for (const [code, name] of functions.entries()) {
      const read = () => ofMixture(family, { expert_gating_func: code }).experts!.scoring;
      if (code === 0 || isConfigured)
        expect(read()).toBe(code === 0 ? (isConfigured && family !== 'glm4moe' ? 'softmax' : scoring) : name);
      else if (name === scoring) expect(read()).toBe(scoring);
      else expect(read).toThrow(refused('MODEL_UNSUPPORTED', `expert_gating_func" is ${name}`));
    }
    for (const value of [true, false]) {
      const read = () => ofMixture(family, { expert_weights_norm: value }).experts!.isNormalized;
      if (hasWeights || value === isNormalized) expect(read()).toBe(value);
      else expect(read).toThrow(refused('MODEL_UNSUPPORTED', `expert_weights_norm" is ${value}`));
    }
    for (const value of [0, 1, 2.5]) {
      const read = () => ofMixture(family, { expert_weights_scale: typed.f32(value) }).experts!.scale;
      if (hasWeights || value !== 2.5) expect(read()).toBe(value || 1);
      else expect(read).toThrow(refused('MODEL_UNSUPPORTED', 'expert_weights_scale" is 2.5; only 1'));
    }
  },
);

test.each(MIXTURES)('widths and counts of experts are whole numbers that the file has: %s', (family) => {
  for (const [key, value] of [
    ['expert_feed_forward_length', 999],
    ['expert_used_count', 0],
  ] as const)
    expect(() => ofMixture(family, { [key]: value }), key).toThrow(refused('GGUF_INVALID', key));
});

test.each<[RandomFamilyName, string, BuilderValue | undefined]>([
  ['glm4moe', 'leading_dense_block_count', 2],
  ['glm4moe', 'leading_dense_block_count', typed.f32(0.5)],
  ['glm4moe', 'leading_dense_block_count', typed.i32(-1)],
  ['glm4moe', 'expert_group_used_count', typed.f32(Number.NaN)],
  ['glm4moe', 'expert_feed_forward_length', typed.f32(-64)],
  ['glm4moe', 'expert_used_count', typed.f32(1.5)],
  ['glm4moe', 'expert_shared_count', typed.f32(0.5)],
  ['granitemoe', 'expert_shared_feed_forward_length', typed.f32(0.5)],
  ['qwen2moe', 'expert_shared_feed_forward_length', typed.i32(-192)],
  ['qwen3moe', 'expert_count', 0],
  ['gpt-oss', 'expert_count', undefined],
])('%s: %s of %j contradicts the model', (family, key, value) => {
  expect(() => ofMixture(family, { [key]: value })).toThrow(refused('GGUF_INVALID', key));
});

test.each(['gemma2', 'gpt-oss'] as const)('a base of windowed layers passes where it is that of all: %s', (family) => {
  const withBase = (base: number) =>
    servable({ family, metadata: { [`${family}.rope.freq_base_swa`]: typed.f32(base) } });
  expect(withBase(10_000).traits.window).toBeDefined();
  expect(() => withBase(5000)).toThrow(refused('MODEL_UNSUPPORTED', 'rope.freq_base_swa" is 5000; only 10000'));
});

test.each(['llama', 'phi3'] as const)('and where no layer is windowed: %s', (family) => {
  const metadata = { [`${family}.rope.freq_base_swa`]: typed.f32(5000) };
  expect(servable({ family, metadata }).traits.window).toBeUndefined();
});

const yarn = (keys: Readonly<Record<string, BuilderValue>>) =>
  servable({
    family: 'llama-yarn',
    metadata: Object.fromEntries(Object.entries(keys).map(([key, value]) => [`llama.rope.scaling.${key}`, value])),
  });

test('yarn’s attention factor passes where it is what is computed, or says nothing', () => {
  const plain = yarn({}).ropeScaling;
  for (const value of [0, 1, 1 + 0.1 * Math.log(4)])
    expect(yarn({ yarn_attn_factor: typed.f32(value) }).ropeScaling).toEqual(plain);
  for (const value of [0.5, 1.2, 2])
    expect(() => yarn({ yarn_attn_factor: typed.f32(value) })).toThrow(
      refused('MODEL_UNSUPPORTED', 'yarn_attn_factor" is'),
    );
});

test('numbers of yarn say nothing without it', () => {
  for (const key of ['attn_factor', 'beta_fast', 'beta_slow', 'log_multiplier'])
    expect(withKey(`rope.scaling.yarn_${key}`, typed.f32(3)).ropeScaling).toBeUndefined();
});

test('a granite whose converter is that of hybrid models is taken, without tensors that its keys are of', () => {
  const granite = { family: 'granite-4', layers: 4 } as const;
  expect(servable(granite)).toMatchObject({ family: 'granite', architecture: 'granite', kvHeads: 2 });
  const conv = { 'blk.0.ssm_conv1d.weight': { dims: [4, 128] } };
  expect(() => servable({ ...granite, tensors: conv })).toThrow(
    refused('MODEL_UNSUPPORTED', '"granite.ssm.*not understood'),
  );
  const shared = { 'blk.0.ffn_up_shexp.weight': { dims: [64, 128] } };
  expect(() => servable({ ...granite, tensors: shared })).toThrow(
    refused('MODEL_UNSUPPORTED', 'expert_shared_feed_forward_length" is 128, which is not understood'),
  );
});

test('a mapping of images’ features to layers passes where it maps none', () => {
  const mapping = (...layers: number[]) => withKey('deepstack_mapping', typed.arrayOf(typed.i32, layers));
  expect(() => mapping(-1, -1)).not.toThrow();
  expect(() => mapping(-1, 0)).toThrow(refused('MODEL_UNSUPPORTED', 'deepstack_mapping'));
});

test('a scale of scores passes where it is that of the head’s size', () => {
  expect(() => withKey('attention.scale', typed.f32(1 / Math.sqrt(16)))).not.toThrow();
  expect(() => withKey('attention.scale', typed.f32(0.3))).toThrow(
    refused('MODEL_UNSUPPORTED', 'attention.scale" is 0.3'),
  );
});

test('sizes of windowed layers’ heads pass where they are those of all', () => {
  for (const key of ['attention.key_length_swa', 'attention.value_length_swa', 'rope.dimension_count_swa']) {
    expect(() => withKey(key, 16)).not.toThrow();
    expect(() => withKey(key, 8)).toThrow(refused('MODEL_UNSUPPORTED', `${key}" is 8; only 16`));
  }
});

test('a file that llama.cpp saved, which has every parameter there is, is the model that it was made of', () => {
  const saved = JSON.parse(readFileSync(path.join(packageRoot, 'test/fixtures/saved-by-llama-cpp.json'), 'utf8'));
  const metadata: Record<string, BuilderValue> = {};
  for (const [key, value] of Object.entries<SavedValue>(saved)) {
    if (typeof value !== 'object') metadata[key] = typeof value === 'number' ? typed.f32(value) : value;
    else if (value.Int32Array) metadata[key] = typed.arrayOf(typed.i32, value.Int32Array);
    else if (value.Float32Array) metadata[key] = typed.arrayOf(typed.f32, value.Float32Array);
    else metadata[key] = typed.array();
  }
  metadata['llama.kda.gate_lower_bound'] = typed.f32(Number.NEGATIVE_INFINITY);
  const plain = servable({ layers: 4 });
  expect(servable({ layers: 4, metadata })).toEqual(plain);
  // Meaning of a converter's file.
  const own = { 'llama.final_logit_softcapping': typed.f32(30) };
  expect(() => servable({ metadata: own })).toThrow(refused('MODEL_UNSUPPORTED', 'final_logit_softcapping'));
  for (const [key, value] of Object.entries({
    final_logit_softcapping: 20,
    expert_group_scale: 1,
    swin_norm: true,
  })) {
    const other = { ...metadata, [`llama.${key}`]: typeof value === 'number' ? typed.f32(value) : value };
    expect(() => servable({ layers: 4, metadata: other })).toThrow(refused('MODEL_UNSUPPORTED', key));
  }
});
type SavedValue = number | string | boolean | { Int32Array?: number[]; Float32Array?: number[] };

test('flags of layers may be numbers', () => {
  const pattern = (value: BuilderValue) =>
    servable({ family: 'olmo2', layers: 4, metadata: { 'olmo2.attention.sliding_window_pattern': value } }).traits
      .window;
  const booleans = pattern(typed.arrayOf(typed.bool, [true, false, true, false]));
  expect(booleans?.layers).toEqual([true, false, true, false]);
  expect(pattern(typed.arrayOf(typed.u32, [1, 0, 1, 0]))).toEqual(booleans);
});

describe('an alias is read as its family is, with what only it has:', () => {
  const aliased = (family: RandomFamilyName, keys: Readonly<Record<string, BuilderValue | undefined>> = {}) =>
    servable({
      family,
      layers: layersOf(family),
      metadata: Object.fromEntries(
        Object.entries(keys).map(([key, value]) => [`${architectureOf(family)}.${key}`, value]),
      ),
    });
  const sections = (...values: number[]) => typed.arrayOf(typed.i32, values);

  test.each(RANDOM_ALIAS_NAMES)('%s', (name) => {
    const architecture = architectureOf(name);
    const { family } = aliased(name);
    expect(family).toBe(Object.hasOwn(ALIASES, architecture) ? ALIASES[architecture as AliasName] : architecture);
  });

  test.each<[RandomFamilyName, string, BuilderValue | undefined, string, string]>([
    ['baichuan', 'block_count', 40, 'MODEL_UNSUPPORTED', 'only the 7B, of 32 layers'],
    ['deci', 'attention.head_count_kv', sections(2, 4, 2, 2), 'MODEL_UNSUPPORTED', 'differs between layers'],
    ['nanbeige', 'num_loops', 2, 'MODEL_UNSUPPORTED', 'num_loops" is 2'],
    ['qwen2vl', 'rope.dimension_sections', undefined, 'GGUF_INVALID', 'is missing'],
    ['qwen2vl', 'rope.dimension_sections', sections(2, 3, 2, 1), 'MODEL_UNSUPPORTED', 'leaves out some'],
    ['qwen3vl', 'rope.dimension_sections', sections(2, 3, 3, 0), 'MODEL_UNSUPPORTED', 'leaves out some'],
    ['glm4-vision', 'rope.dimension_sections', sections(2, 3, 2, 1), 'MODEL_UNSUPPORTED', 'leaves out some'],
    ['glm4moe-vision', 'rope.dimension_sections', sections(2, 3, 2, 1), 'MODEL_UNSUPPORTED', 'leaves out some'],
    ['ernie4_5-moe', 'interleave_moe_layer_step', 2, 'MODEL_UNSUPPORTED', 'interleave_moe_layer_step" is 2'],
    ['gemma3n', 'altup.num_inputs', 3, 'MODEL_UNSUPPORTED', 'only 4 streams'],
    ['gemma3n', 'altup.active_idx', 1, 'MODEL_UNSUPPORTED', 'layers compute only stream 0'],
    ['gemma3n', 'activation_sparsity_scale', typed.arrayOf(typed.f32, [1.5]), 'GGUF_INVALID', 'has 1 entries for 23'],
    ['gemma3n', 'attention.sliding_window', 0, 'GGUF_INVALID', 'is missing or 0'],
    ['paddleocr', 'rope.dimension_sections', undefined, 'GGUF_INVALID', 'is missing'],
    ['llama', 'rope.dimension_sections', sections(2, 3, 3, 0), 'MODEL_UNSUPPORTED', 'not understood'],
    ['qwen2', 'num_loops', 2, 'MODEL_UNSUPPORTED', 'not understood'],
  ])('%s with another %s: %j', (name, key, value, reason, what) => {
    expect(() => aliased(name, { [key]: value })).toThrow(refused(reason, what));
  });

  test('gates of gemma3n are sparse in layers that its file says, else in the first ten', () => {
    const sparse = (value: BuilderValue | undefined) =>
      aliased('gemma3n', { activation_sparsity_scale: value }).traits.gateDeviations;
    const one = Array.from({ length: 23 }, (_, layer) => (layer === 7 ? 0.5 : Number.NEGATIVE_INFINITY));
    expect(sparse(typed.arrayOf(typed.f32, one))).toEqual(one.map((number) => (number === 0.5 ? number : undefined)));
    expect(sparse(undefined)).toEqual(Array(10).fill(1.6448533535003662));
  });

  test('sections of zeros are none', () => {
    expect(aliased('glm4-vision').traits.hasNeoxRope).toBe(true);
    expect(aliased('glm4-vision', { 'rope.dimension_sections': sections(0, 0, 0, 0) }).traits).toEqual({});
    expect(aliased('glm4').traits).toEqual({});
  });

  test('scales that an old minicpm leaves out', () => {
    expect(aliased('minicpm-old').traits).toEqual({ logitsDivisor: 4, residualScale: 0.7, embeddingScale: 12 });
    expect(aliased('minicpm').traits).toMatchObject({ logitsDivisor: 4, embeddingScale: 3 });
  });
});

test.each(['qwen2moe', 'qwen3moe'] as const)(
  'a width of experts that is missing is a share of the dense one: %s',
  (family) => {
    const used = ofMixture(family, {}).experts!.usedPerToken;
    const keys = { expert_feed_forward_length: undefined, feed_forward_length: 64 * used };
    expect(ofMixture(family, keys).experts?.ffnSize).toBe(64);
    expect(ofMixture(family, { ...keys, expert_feed_forward_length: 0 }).experts?.ffnSize).toBe(64);
  },
);

test('experts in mistral3 and granite, of which most models are dense', () => {
  for (const family of ['mistral3', 'granite'] as const) {
    const keys = { [`${family}.expert_count`]: 8, [`${family}.expert_used_count`]: 2 };
    const tensors = { 'blk.0.ffn_gate_exps.weight': { dims: [64, 128, 8] } };
    expect(servable({ family, metadata: keys, tensors }).experts).toMatchObject({ count: 8, ffnSize: 128 });
    expect(servable({ family }).experts).toBeUndefined();
  }
});

test('an unknown RoPE scaling is refused by name', () => {
  const metadata = { 'llama.rope.scaling.type': 'ntk', 'llama.rope.scaling.factor': typed.f32(4) };
  expect(() => servable({ metadata })).toThrow(refused('MODEL_UNSUPPORTED', '"llama.rope.scaling.type" is "ntk"'));
});

test.each<[string, Readonly<Record<string, BuilderValue>>, number | undefined]>([
  ['a factor without a type is linear', { 'rope.scaling.factor': typed.f32(4) }, 4],
  ['the old name of a linear factor', { 'rope.scale_linear': typed.f32(4) }, 4],
  ['the new name before the old one', { 'rope.scale_linear': typed.f32(4), 'rope.scaling.factor': typed.f32(2) }, 2],
  ['linear without a factor is none', { 'rope.scaling.type': 'linear' }, undefined],
  ['none, whatever the factor', { 'rope.scaling.type': 'none', 'rope.scaling.factor': typed.f32(4) }, undefined],
])('RoPE scaling as llama.cpp reads it: %s', (_, keys, factor) => {
  const metadata = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`llama.${key}`, value]));
  expect(servable({ metadata }).ropeScaling).toEqual(factor && { type: 'linear', factor });
});

const HUGE: readonly BuilderValue[] = [2 ** 32 - 1, 2 ** 31 - 1, typed.u64(2n ** 53n - 1n), typed.u64(2n ** 64n - 1n)];
test.each([
  'block_count',
  'embedding_length',
  'feed_forward_length',
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'rope.dimension_count',
])('an absurd %s is invalid, by name, whatever the number', (key) => {
  for (const value of [...HUGE, 100_000, 7]) {
    // By the key, or by what contradicts it.
    const names = `"llama\\.(${key}|attention\\.|rope\\.)|hidden size ${value}|the vocabulary \\(metadata\\) only`;
    expect(() => withKey(key, value)).toThrow(refused('GGUF_INVALID', names));
  }
});

test.each<[string, readonly number[]]>([
  ['attention.layer_norm_rms_epsilon', [1e38, 2, 1e-40, -1, 0, Number.NaN, Number.POSITIVE_INFINITY]],
  ['rope.freq_base', [1e38, 0.5, 0, -10_000, Number.NaN, Number.POSITIVE_INFINITY]],
  ['rope.scaling.factor', [1e38, 1e-30, -4, Number.NaN, Number.POSITIVE_INFINITY]],
  ['rope.scale_linear', [1e38, 1e-30, -4, Number.NaN]],
  ['rope.scaling.attn_factor', [1e38, 1e-30, 0, -1, Number.NaN]],
])('an absurd %s is invalid, by name', (key, values) => {
  for (const value of values) {
    expect(() => withKey(key, typed.f32(value))).toThrow(refused('GGUF_INVALID', `"llama.${key}" is `));
  }
});

test('a context beyond 32 bits is invalid; fewer or more blocks than the tensors have, too', () => {
  expect(() => withKey('context_length', typed.u64(2n ** 40n))).toThrow(refused('GGUF_INVALID', 'context_length'));
  for (const layers of [1, 3]) {
    expect(() => withKey('block_count', layers)).toThrow(
      refused('GGUF_INVALID', `"llama.block_count" is ${layers}, but the file has tensors of 2 blocks`),
    );
  }
  const tensors = { 'blk.4000000000.attn_norm.weight': { dims: [64] } };
  expect(() => servable({ tensors, metadata: { 'llama.block_count': 4_000_000_001 } })).toThrow(
    refused('GGUF_INVALID', 'block_count'),
  );
});

test('rows of the vocabulary’s matrices that no token has are told from tokens', () => {
  expect(servable({ paddedRows: 13 })).toMatchObject({ vocabularySize: 299, vocabularyRows: 312 });
});

describe('what a recurrent model cannot be computed with is refused by name:', () => {
  const keysOf = (keys: Readonly<Record<string, BuilderValue | undefined>>) =>
    Object.fromEntries(Object.entries(keys).map(([key, value]) => [`qwen35.${key}`, value]));
  const sections = (...values: number[]) => typed.arrayOf(typed.i32, values);
  const refusals: readonly (readonly [
    Readonly<Record<string, BuilderValue | undefined>>,
    'GGUF_INVALID' | 'MODEL_UNSUPPORTED',
    string,
  ])[] = [
    [{ 'ssm.conv_kernel': 5 }, 'MODEL_UNSUPPORTED', '"qwen35.ssm.conv_kernel" is 5; built is 4'],
    [{ 'ssm.inner_size': 96 }, 'GGUF_INVALID', '"qwen35.ssm.inner_size" is 96, not 4 heads of 32 elements'],
    [{ 'ssm.group_count': 3 }, 'GGUF_INVALID', '"qwen35.ssm.group_count" is 3, which does not divide'],
    [{ 'ssm.state_size': undefined }, 'GGUF_INVALID', '"qwen35.ssm.state_size" is missing'],
    [{ 'ssm.dt_b_c_rms': true }, 'MODEL_UNSUPPORTED', '"qwen35.ssm.dt_b_c_rms" is .*not understood'],
    [
      { 'attention.recurrent_layers': typed.arrayOf(typed.bool, [true, false]) },
      'GGUF_INVALID',
      'has 2 entries for 4 layers',
    ],
    [{ 'attention.recurrent_layers': 3 }, 'GGUF_INVALID', 'is 3, no list of a boolean a layer'],
    [{ 'rope.dimension_sections': undefined }, 'GGUF_INVALID', '"qwen35.rope.dimension_sections" is missing'],
    [{ 'rope.dimension_sections': sections(3, 3, 1, 0) }, 'MODEL_UNSUPPORTED', 'which leaves out some of the 8 pairs'],
    [{ 'rope.dimension_sections': sections(2, 2, 2, 2) }, 'MODEL_UNSUPPORTED', 'which leaves out some of the 8 pairs'],
    [{ 'rope.dimension_sections': sections(0, 0, 0, 0) }, 'MODEL_UNSUPPORTED', 'which leaves out some of the 8 pairs'],
  ];
  test.each(refusals)('%j', (keys, reason, what) => {
    expect(() => servable({ family: 'qwen35', layers: 4, metadata: keysOf(keys) })).toThrow(refused(reason, what));
  });

  test('every other layer may have attention, and a list may say which', () => {
    const { traits } = servable({ family: 'qwen35', layers: 4 });
    expect(traits.recurrent).toEqual({ keyHeads: 2, valueHeads: 4, dim: 32, layers: [true, true, true, false] });
    const listed = keysOf({
      'attention.recurrent_layers': typed.arrayOf(typed.bool, [true, true, true, false]),
      full_attention_interval: 2,
    });
    expect(servable({ family: 'qwen35', layers: 4, metadata: listed }).traits.recurrent?.layers).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });
});
