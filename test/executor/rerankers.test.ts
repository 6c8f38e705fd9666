import { describe, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { gelu } from '../kernels/reference/geglu.js';
import { randomText } from '../support/encoder-answers.js';
import { EncoderSteps, POOLED_AS } from '../support/encoder-steps.js';
import { float64Encoder } from '../support/float64-encoder.js';
import { float64Head, type HeadOptions } from '../support/float64-head.js';
import { pooledStates } from '../support/pooled-states.js';
import {
  llamaScores,
  PAIRS,
  RANDOM_RERANKER_NAMES,
  type RandomRerankerName,
  writeRandomReranker,
} from '../support/reranker-answers.js';

const device = openDevice({ kind: 'host' });

/**
 * Deviations of hidden states from llama.cpp's (encoders.test.ts), and what a score makes of errors in no common direction: rows of both
 * matrices have a length of 2, and tanh, GELU and the norm make none of them longer by much.
 */
const [TABLED, GRADIENT] = [1e-3, 4];
const BOUND = TABLED * GRADIENT;
/** Error of sums in f32 and in another order than the reference's (encoders.test.ts), with the same gradient. */
const SUMMED = 1e-5 * GRADIENT;

const poolingOf = (name: RandomRerankerName): 'mean' | 'cls' => (name === 'modern-bert' ? 'mean' : 'cls');

/** Pooled hidden states in double precision. */
function pooledOf(file: string, tokens: readonly number[], pooling: 'mean' | 'cls', geluTable = true): Float32Array {
  const states = float64Encoder(file, tokens, { geluTable });
  const size = states[0]!.length;
  return pooledStates(pooling, tokens.length, size).add(Float32Array.from(states.flatMap((row) => [...row])))!;
}

describe('scores of pairs', () => {
  it.each(RANDOM_RERANKER_NAMES)('%s: double precision gives llama.cpp’s', (name) => {
    const file = writeRandomReranker(name);
    const score = float64Head(file);
    const differences = llamaScores(name).map(({ tokens, scores }, i) => {
      expect(tokens).toEqual(PAIRS[i]);
      return Math.abs(score(pooledOf(file, tokens, poolingOf(name))) - scores[0]!);
    });
    console.log(`${name}: ${differences.map((one) => one.toExponential(1))}`);
    expect(Math.max(...differences)).toBeLessThanOrEqual(BOUND);
  });

  it.each(RANDOM_RERANKER_NAMES)('%s: the executor gives them, and those of double precision', async (name) => {
    const file = writeRandomReranker(name);
    const steps = await EncoderSteps.load(device, file);
    const scores = (await steps.scores(PAIRS, POOLED_AS[poolingOf(name)])).map((labels) => labels[0]!);
    steps.release();
    const expected = llamaScores(name).map((one) => one.scores[0]!);
    console.log(
      `${name}: ${scores.map((score, i) => `${score.toFixed(4)} (${(score - expected[i]!).toExponential(1)})`)}`,
    );
    for (const [i, score] of scores.entries()) expect(Math.abs(score - expected[i]!)).toBeLessThanOrEqual(BOUND);
    expect(Math.max(...expected) - Math.min(...expected)).toBeGreaterThan(20 * BOUND);
    const exact = PAIRS.map((tokens) => float64Head(file)(pooledOf(file, tokens, poolingOf(name), false)));
    for (const [i, score] of scores.entries()) expect(Math.abs(score - exact[i]!)).toBeLessThanOrEqual(SUMMED);
  });

  it('have the bits of all labels alone and among others, beside states that are pooled', async () => {
    const file = writeRandomReranker('bert-labels');
    const steps = await EncoderSteps.load(device, file, { maxStepTokens: 900 });
    const texts = Array.from({ length: 12 }, (_, i) => randomText(2 + ((i * 29) % 90), 60 + i));
    const mixed = await steps.returned(texts, (slice, i) => ({ ...slice, pooling: POOLED_AS.cls, score: i % 3 !== 0 }));
    const states = await steps.pooled(texts, POOLED_AS.cls);
    const scores = await steps.scores(texts, POOLED_AS.cls);
    for (const [i, text] of texts.entries()) {
      expect(mixed[i]).toEqual(i % 3 === 0 ? states[i] : scores[i]);
      const [alone] = await steps.scores([text], POOLED_AS.cls);
      expect(alone).toEqual(scores[i]);
      expect(alone).toHaveLength(3);
      for (const [label, score] of alone!.entries())
        expect(Math.abs(score - float64Head(file, { label })(states[i]!))).toBeLessThanOrEqual(SUMMED);
    }
    steps.release();
  });

  /**
   * Error of int8 activations (encoders.test.ts) of a deviation of 1, or of what tanh gives, in both products of a head: rows have a
   * length of 2, so that the first one's error is twice as large behind the second.
   */
  const QUANTIZED = (2.3 / 127 / Math.sqrt(12)) * Math.hypot(4, 2);
  it.each<TensorTypeName>(['Q8_0', 'Q4_K', 'Q6_K'])('are those of double precision in %s', async (type) => {
    const file = writeRandomReranker('bert-dense', { hidden: 256, blocks: () => type });
    const steps = await EncoderSteps.load(device, file);
    const states = await steps.pooled(PAIRS, POOLED_AS.cls);
    const scores = (await steps.scores(PAIRS, POOLED_AS.cls)).map((labels) => labels[0]!);
    steps.release();
    const differences = scores.map((score, i) => Math.abs(score - float64Head(file)(states[i]!)));
    console.log(`${type}: ${differences.map((one) => one.toExponential(1))} of ${QUANTIZED.toExponential(1)}`);
    expect(Math.max(...differences)).toBeLessThanOrEqual(QUANTIZED);
    expect(Math.max(...scores) - Math.min(...scores)).toBeGreaterThan(2 * QUANTIZED);
  });
});

describe('what is easily mistaken in a head is seen in its scores', () => {
  const largest = (name: RandomRerankerName, options?: HeadOptions, pooling = poolingOf(name)): number => {
    const file = writeRandomReranker(name);
    const score = float64Head(file, options);
    return Math.max(
      ...llamaScores(name).map(({ tokens, scores }) => Math.abs(score(pooledOf(file, tokens, pooling)) - scores[0]!)),
    );
  };

  it.each([
    ['bert-dense', 'no bias of the product', { without: ['cls.bias'] }],
    ['bert-dense', 'no bias of the labels', { without: ['cls.output.bias'] }],
    ['bert-dense', 'GELU for tanh', { activation: gelu }],
    ['bert-labels', 'the last label for the first', { label: 2 }],
    ['jina-bert-v2', 'no bias', { without: ['cls.bias'] }],
    ['jina-bert-v2', 'no tanh', { activation: (value: number) => value }],
    ['modern-bert', 'no norm', { without: ['cls.norm.weight'] }],
    ['modern-bert', 'tanh for GELU', { activation: Math.tanh }],
  ] as const)('%s: %s', (name, _what, options) => {
    expect(largest(name, options)).toBeGreaterThan(2 * BOUND);
  });

  it.each([
    ['bert-dense', 'mean'],
    ['modern-bert', 'cls'],
  ] as const)('%s: pooled by %s', (name, pooling) => {
    expect(largest(name, undefined, pooling)).toBeGreaterThan(2 * BOUND);
  });
});

describe('a head that does not fit is refused', () => {
  it.each([
    [
      'more labels than rows',
      { 'bert.classifier.output_labels': ['a', 'b'] },
      {},
      /cls.output.weight is \[64, 1\], .* say \[64, 2\]/,
    ],
    ['a norm with rows', {}, { 'cls.norm.weight': [64, 2] }, /cls.norm.weight is \[64, 2\], .* say \[64\]/],
    ['a norm of another width', {}, { 'cls.norm.weight': [8] }, /cls.norm.weight is \[8\], .* say \[64\]/],
  ] as const)('%s', async (_what, metadata, tensors, message) => {
    const file = writeRandomReranker('bert-dense', { metadata, tensors });
    await expect(EncoderSteps.load(device, file)).rejects.toThrow(message);
  });
});
