import { describe, expect, test } from 'vitest';
import { FileByteSource } from '../../../src/shared/gguf/byte-source.js';
import { readGguf } from '../../../src/shared/gguf/reader.js';
import { readServableModel } from '../../../src/shared/gguf/servable-model.js';
import { type BuilderValue, typed } from '../../support/gguf-builder.js';
import {
  architectureOf,
  RANDOM_FAMILIES,
  RANDOM_FAMILY_NAMES,
  type RandomFamilyName,
} from '../../support/random-families.js';
import { type RandomModelOptions, randomModel } from '../../support/random-model.js';
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
  ['attention.scale', typed.f32(0.5)],
  ['attention.clamp_kqv', typed.f32(8)],
  ['attention.max_alibi_bias', typed.f32(8)],
  ['logit_scale', typed.f32(0.1)],
  ['residual_scale', typed.f32(0.2)],
  ['embedding_scale', typed.f32(12)],
  ['attn_logit_softcapping', typed.f32(50)],
  ['final_logit_softcapping', typed.f32(30)],
  ['use_parallel_residual', true],
  ['rope.dimension_sections', typed.array(typed.i32(8), typed.i32(8))],
  ['rope.scaling.yarn_log_multiplier', typed.f32(0.1)],
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
  return servable({ family, metadata: Object.fromEntries(entries) });
};

test.each(MIXTURES)('one group of experts is none, and nothing else about groups is passed over: %s', (family) => {
  expect(() => ofMixture(family, { expert_group_count: 1, expert_group_used_count: 1 })).not.toThrow();
  for (const key of ['expert_group_count', 'expert_group_used_count']) {
    expect(() => ofMixture(family, { [key]: 2 })).toThrow(refused('MODEL_UNSUPPORTED', `${key}" is 2: expert groups`));
    expect(() => ofMixture(family, { [key]: typed.f32(0.5) })).toThrow(
      refused('GGUF_INVALID', `${key}" is 0.5 instead of a positive integer`),
    );
  }
});

test.each(MIXTURES)('what weights of experts are made of is read or refused by name: %s', (family) => {
  const keys = { expert_weights_scale: typed.f32(2.5), expert_weights_norm: true, expert_gating_func: 2 };
  for (const [key, value] of Object.entries(keys)) {
    if (family === 'glm4moe') expect(() => ofMixture(family, { [key]: value })).not.toThrow();
    else
      expect(() => ofMixture(family, { [key]: value })).toThrow(
        refused('MODEL_UNSUPPORTED', `${key}" .*not understood`),
      );
  }
});

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

test.each(['gemma2', 'phi3'] as const)('a base of windowed layers is refused where they have none: %s', (family) => {
  const metadata = { [`${family}.rope.freq_base_swa`]: typed.f32(5000) };
  expect(() => servable({ family, metadata })).toThrow(refused('MODEL_UNSUPPORTED', 'rope.freq_base_swa'));
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
  ['rope.scaling.factor', [1e38, 1e-30, 0, -4, Number.NaN, Number.POSITIVE_INFINITY]],
  ['rope.scale_linear', [1e38, 1e-30, 0, -4, Number.NaN]],
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
