import { expect, test } from 'vitest';
import { readModelParameters } from '../../../src/lib/gguf/model-parameters.js';
import { type BuilderValue, GgufBuilder, tinyLlama, typed } from '../../support/gguf-builder.js';

type Overrides = Readonly<Record<string, BuilderValue | undefined>>;

const parameters = (overrides: Overrides = {}) => readModelParameters(tinyLlama(overrides).read());

test('the shape of a llama is read from its metadata', () => {
  expect(parameters()).toEqual({
    architecture: 'llama',
    name: 'tiny llama',
    layers: 2,
    contextLength: 128,
    hiddenSize: 64,
    ffnSize: 160,
    heads: 4,
    kvHeads: 2,
    headDim: 16,
    rmsNormEpsilon: Math.fround(1e-5),
    ropeDimensions: 16,
    ropeFreqBase: 10_000,
    originalContextLength: 128,
    vocabularySize: 96,
    vocabularyRows: 96,
    vocabularySource: 'tensor',
  });
});

test('what a file may leave out has the usual value', () => {
  const found = parameters({
    'general.name': undefined,
    'llama.attention.head_count_kv': undefined,
    'llama.rope.dimension_count': undefined,
  });
  expect(found).toMatchObject({ name: 'tiny-llama', kvHeads: 4, headDim: 16, ropeDimensions: 16 });
});

test('heads may be wider than their share of the hidden size', () => {
  const found = parameters({ 'llama.attention.key_length': 32, 'llama.attention.value_length': 32 });
  expect(found).toMatchObject({ headDim: 32, ropeDimensions: 16 });
});

test('64-bit and per-layer forms of a count are the count, when all layers agree', () => {
  const found = parameters({
    'llama.block_count': typed.u64(2n),
    'llama.attention.head_count_kv': typed.array(typed.i32(2), typed.i32(2)),
  });
  expect(found).toMatchObject({ layers: 2, kvHeads: 2 });
});

test('rope scaling is read, and absent for type none', () => {
  expect(parameters({ 'llama.rope.scaling.type': 'none' })).not.toHaveProperty('ropeScaling');
  expect(parameters({ 'llama.rope.scaling.type': 'linear', 'llama.rope.scaling.factor': 4 }).ropeScaling).toEqual({
    type: 'linear',
    factor: 4,
  });
  const yarn = {
    'llama.rope.scaling.type': 'yarn',
    'llama.rope.scaling.factor': 2.5,
    'llama.rope.scaling.original_context_length': 64,
  };
  const mix = { extrapolation: 1, betaFast: 32, betaSlow: 1, logMultiplier: 0 };
  expect(parameters(yarn)).toMatchObject({
    ropeScaling: { type: 'yarn', factor: 2.5, yarn: mix },
    originalContextLength: 64,
  });
});

test('experts are read, and absent for a dense model', () => {
  expect(parameters({ 'llama.expert_count': 0 })).not.toHaveProperty('experts');
  const found = parameters({ 'llama.expert_count': 8, 'llama.expert_used_count': 2 });
  expect(found.experts).toEqual({
    ...{ count: 8, usedPerToken: 2, ffnSize: found.ffnSize, sharedFfnSize: 0, denseLayers: 0 },
    ...{ scoring: 'softmax', isNormalized: true, scale: 1 },
  });
});

test('a file without an architecture is refused', () => {
  expect(() => readModelParameters(new GgufBuilder().read())).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: 'test.gguf: metadata key "general.architecture" is missing or empty',
    }),
  );
});

test.each(['adapter', 'mmproj', 'imatrix'])('a file of the type %s is not a model', (type) => {
  const file = new GgufBuilder().set('general.architecture', 'llama').set('general.type', type).read();
  expect(() => readModelParameters(file)).toThrow(expect.objectContaining({ reason: 'MODEL_UNSUPPORTED' }));
});

test.each([
  'block_count',
  'context_length',
  'embedding_length',
  'feed_forward_length',
  'attention.head_count',
  'attention.layer_norm_rms_epsilon',
])('a file without %s is refused, and told which key', (key) => {
  expect(() => parameters({ [`llama.${key}`]: undefined })).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: `tiny-llama.gguf: metadata key "llama.${key}" is missing`,
      metadata: { key: `llama.${key}` },
    }),
  );
});

test.each<[string, string, BuilderValue]>([
  ['block_count', 'is 0 instead of a positive integer', 0],
  ['block_count', 'is -1 instead of a positive integer', -1],
  ['block_count', 'is 1.5 instead of a positive integer', 1.5],
  ['block_count', 'is not a number', 'two'],
  ['block_count', 'is not a number', typed.u64(2n ** 60n)],
  ['block_count', 'is an empty list', typed.array()],
  ['attention.head_count', 'is 6, which does not divide the hidden size 64', 6],
  ['attention.head_count_kv', 'is 3, which does not divide the 4 query heads', 3],
  ['attention.layer_norm_rms_epsilon', 'is NaN instead of a positive number', typed.f32(Number.NaN)],
  ['attention.layer_norm_rms_epsilon', 'is -1 instead of a positive number', typed.f32(-1)],
  ['rope.freq_base', 'is Infinity instead of a positive number', typed.f32(Number.POSITIVE_INFINITY)],
  ['rope.dimension_count', 'is 18, not an even number up to head_dim 16', 18],
  ['rope.dimension_count', 'is 7, not an even number up to head_dim 16', 7],
])('a file whose %s %s is refused', (key, problem, value) => {
  expect(() => parameters({ [`llama.${key}`]: value })).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: `tiny-llama.gguf: metadata key "llama.${key}" ${problem}`,
    }),
  );
});

test.each<[string, Overrides, string]>([
  [
    'layers that differ',
    { 'llama.attention.head_count_kv': typed.array(typed.i32(2), typed.i32(4)) },
    '"llama.attention.head_count_kv" differs between layers (2,4)',
  ],
  [
    'value heads unlike key heads',
    { 'llama.attention.key_length': 16, 'llama.attention.value_length': 8 },
    '"llama.attention.value_length" is 8, unlike the key heads of 16',
  ],
  ['an unknown rope scaling', { 'llama.rope.scaling.type': 'su' }, '"llama.rope.scaling.type" is "su"'],
])('%s are unsupported, not invalid', (_, overrides, problem) => {
  expect(() => parameters(overrides)).toThrow(
    expect.objectContaining({ reason: 'MODEL_UNSUPPORTED', message: expect.stringContaining(problem) }),
  );
});

test('a scaling without its factor is none, and more used experts than there are are refused', () => {
  for (const type of ['yarn', 'linear']) {
    expect(parameters({ 'llama.rope.scaling.type': type })).not.toHaveProperty('ropeScaling');
    const unset = { 'llama.rope.scaling.type': type, 'llama.rope.scaling.factor': typed.f32(0) };
    expect(parameters(unset)).not.toHaveProperty('ropeScaling');
  }
  expect(() => parameters({ 'llama.expert_count': 2, 'llama.expert_used_count': 3 })).toThrow(
    '"llama.expert_used_count" is 3, more than the 2 experts there are',
  );
});
