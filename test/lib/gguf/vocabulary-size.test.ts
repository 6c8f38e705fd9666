import { expect, test } from 'vitest';
import { readModelParameters } from '../../../src/lib/gguf/model-parameters.js';
import { GgufBuilder } from '../../support/gguf-builder.js';

/** The least a transformer's metadata can be, hidden size 64, without vocabulary and tensors. */
function bare(architecture = 'llama'): GgufBuilder {
  return new GgufBuilder().set('general.architecture', architecture).setAll({
    [`${architecture}.block_count`]: 1,
    [`${architecture}.context_length`]: 128,
    [`${architecture}.embedding_length`]: 64,
    [`${architecture}.feed_forward_length`]: 128,
    [`${architecture}.attention.head_count`]: 4,
    [`${architecture}.attention.layer_norm_rms_epsilon`]: 0.5,
  });
}

function vocabulary(builder: GgufBuilder): [number, string] {
  const { vocabularyRows, vocabularySource } = readModelParameters(builder.read());
  return [vocabularyRows, vocabularySource];
}

test('the tensors come first: the key may be older than the tokens', () => {
  const builder = bare()
    .set('llama.vocab_size', 70)
    .set(
      'tokenizer.ggml.tokens',
      Array.from({ length: 80 }, (_, i) => `t${i}`),
    )
    .tensor('token_embd.weight', { dims: [64, 80] });
  expect(vocabulary(builder)).toEqual([80, 'tensor']);
});

test('without tensors the metadata tells it', () => {
  expect(vocabulary(bare().set('llama.vocab_size', 70))).toEqual([70, 'metadata']);
});

test('a vocab_size of 0 means that the tensors know', () => {
  const builder = bare()
    .set('llama.vocab_size', 0)
    .tensor('token_embd.weight', { dims: [64, 80] });
  expect(vocabulary(builder)).toEqual([80, 'tensor']);
});

test.each(['token_embd.weight', 'output.weight', 'lm_head.weight', 'embed_tokens.weight'])(
  'the shape of %s tells it, in either orientation',
  (name) => {
    expect(vocabulary(bare().tensor(name, { dims: [64, 80] }))).toEqual([80, 'tensor']);
    expect(vocabulary(bare().tensor(name, { dims: [80, 64] }))).toEqual([80, 'tensor']);
  },
);

test('a vocabulary as large as the hidden size is found too', () => {
  expect(vocabulary(bare().tensor('output.weight', { dims: [64, 64] }))).toEqual([64, 'tensor']);
});

test.each([
  ['qwen2', 151_936],
  ['llama', 32_000],
  ['glm', 151_552],
  ['chatglm', 151_552],
  ['glm4', 151_552],
])('without either, %s has %i', (architecture, size) => {
  expect(vocabulary(bare(architecture))).toEqual([size, 'architecture default']);
});

test('an architecture without a usual size is unsupported', () => {
  expect(() => vocabulary(bare('mamba'))).toThrow(
    expect.objectContaining({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('"mamba.vocab_size" is missing, and neither a tensor nor the architecture'),
    }),
  );
});

test.each([[[32, 80]], [[64]], [[64, 80, 2]]])('an embedding of %j contradicts the hidden size 64', (dims) => {
  expect(() => vocabulary(bare().tensor('token_embd.weight', { dims }))).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: `test.gguf: tensor "token_embd.weight" is ${dims.join(' × ')}, with the hidden size 64 on neither side`,
    }),
  );
});

test('a tokenizer may be smaller than a padded vocabulary but never larger', () => {
  const builder = (size: number) => bare().set('tokenizer.ggml.tokens', ['a', 'b', 'c']).set('llama.vocab_size', size);
  expect(vocabulary(builder(4))).toEqual([4, 'metadata']);
  expect(readModelParameters(builder(4).read()).vocabularySize).toBe(3);
  expect(() => vocabulary(builder(2))).toThrow(
    expect.objectContaining({
      reason: 'GGUF_INVALID',
      message: 'test.gguf: the tokenizer has 3 tokens, but the vocabulary (metadata) only 2',
    }),
  );
});
