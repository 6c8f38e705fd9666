import { afterEach, describe, expect, it, vi } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import { ClassificationHead } from '../../src/gateway/request/classification-head.js';
import type { Pooling } from '../../src/gateway/request/embedding.js';
import { ModelFile } from '../../src/gateway/request/model-file.js';
import { pooledStates } from '../../src/gateway/request/pooled-states.js';
import { GgufMetadata } from '../../src/shared/gguf/metadata.js';
import { readServableModel } from '../../src/shared/gguf/servable-model.js';
import { EncoderSteps } from '../support/encoder-steps.js';
import { float64Encoder } from '../support/float64-encoder.js';
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

type HeadFile = Parameters<typeof ClassificationHead.of>[0];

/** @param change of what the head is read from */
function open(file: string, change: (file: HeadFile) => Partial<HeadFile> = () => ({})) {
  const opened = new ModelFile(file);
  const parameters = readServableModel(opened.header);
  const given: HeadFile = { header: opened.header, smallMatrix: (name) => opened.smallMatrix(name) };
  const head = ClassificationHead.of({ ...given, ...change(given) }, parameters)!;
  opened.close();
  return { head, size: parameters.hiddenSize };
}

const poolingOf = (name: RandomRerankerName): Pooling => (name === 'modern-bert' ? 'mean' : 'cls');

describe('scores of pairs', () => {
  it.each(RANDOM_RERANKER_NAMES)('%s: double precision gives llama.cpp’s', (name) => {
    const file = writeRandomReranker(name);
    const { head, size } = open(file);
    const differences = llamaScores(name).map(({ tokens, scores }, i) => {
      expect(tokens).toEqual(PAIRS[i]);
      const states = float64Encoder(file, tokens, { geluTable: true }).flatMap((row) => [...row]);
      const pooled = pooledStates(poolingOf(name), tokens.length, size).add(Float32Array.from(states))!;
      return Math.abs(head.score(pooled) - scores[0]!);
    });
    console.log(`${name}: ${differences.map((one) => one.toExponential(1))}`);
    expect(Math.max(...differences)).toBeLessThanOrEqual(BOUND);
  });

  it.each(RANDOM_RERANKER_NAMES)('%s: the executor’s states give them', async (name) => {
    const file = writeRandomReranker(name);
    const { head, size } = open(file);
    const steps = await EncoderSteps.load(device, file);
    const states = await steps.states(PAIRS);
    steps.release();
    const scores = PAIRS.map(({ length }, i) =>
      head.score(pooledStates(poolingOf(name), length, size).add(states[i]!)!),
    );
    const expected = llamaScores(name).map((one) => one.scores[0]!);
    console.log(
      `${name}: ${scores.map((score, i) => `${score.toFixed(4)} (${(score - expected[i]!).toExponential(1)})`)}`,
    );
    for (const [i, score] of scores.entries()) expect(Math.abs(score - expected[i]!)).toBeLessThanOrEqual(BOUND);
    expect(Math.max(...expected) - Math.min(...expected)).toBeGreaterThan(20 * BOUND);
  });
});

const without =
  (tensor: string) =>
  ({ smallMatrix }: HeadFile): Partial<HeadFile> => ({
    smallMatrix: (name) => (name === tensor ? undefined : smallMatrix(name)),
  });
const lastLabelFirst = ({ smallMatrix }: HeadFile): Partial<HeadFile> => ({
  smallMatrix: (name) => (name.startsWith('cls.output') ? smallMatrix(name)?.toReversed() : smallMatrix(name)),
});
const of =
  (architecture: string) =>
  ({ header }: HeadFile): Partial<HeadFile> => ({
    header: {
      ...header,
      tensors: header.tensors,
      metadata: new GgufMetadata(
        new Map(
          [...header.metadata].map(([key, value]) => [key, key === 'general.architecture' ? architecture : value]),
        ),
      ),
    },
  });

describe('what is easily mistaken in a head is seen in its scores', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  const largest = (
    name: RandomRerankerName,
    change?: Parameters<typeof open>[1],
    pooling = poolingOf(name),
  ): number => {
    const file = writeRandomReranker(name);
    const { head, size } = open(file, change);
    const differences = llamaScores(name).map(({ tokens, scores }) => {
      const states = float64Encoder(file, tokens, { geluTable: true }).flatMap((row) => [...row]);
      return Math.abs(
        head.score(pooledStates(pooling, tokens.length, size).add(Float32Array.from(states))!) - scores[0]!,
      );
    });
    return Math.max(...differences);
  };

  it.each([
    ['bert-dense', 'no bias of the product', without('cls.bias')],
    ['bert-dense', 'no bias of the labels', without('cls.output.bias')],
    ['bert-dense', 'GELU for tanh', of('modern-bert')],
    ['bert-labels', 'the last label for the first', lastLabelFirst],
    ['jina-bert-v2', 'no bias', without('cls.bias')],
    ['modern-bert', 'no norm', without('cls.norm.weight')],
    ['modern-bert', 'tanh for GELU', of('bert')],
  ] as const)('%s: %s', (name, _what, change) => {
    expect(largest(name, change)).toBeGreaterThan(2 * BOUND);
  });

  it.each([
    ['bert-dense', 'mean'],
    ['modern-bert', 'cls'],
  ] as const)('%s: pooled by %s', (name, pooling) => {
    expect(largest(name, undefined, pooling)).toBeGreaterThan(2 * BOUND);
  });

  it('jina-bert-v2: no tanh', () => {
    vi.spyOn(Math, 'tanh').mockImplementation((x) => x);
    expect(largest('jina-bert-v2')).toBeGreaterThan(2 * BOUND);
  });
});

describe('a head that does not fit is refused', () => {
  it.each([
    [
      'more labels than rows',
      { 'bert.classifier.output_labels': ['a', 'b'] },
      {},
      /cls.output.weight has 1 .* where 2 fit/,
    ],
    ['a norm with rows', {}, { 'cls.norm.weight': [64, 2] }, /cls.norm.weight has 128 .* where 64 fit/],
    ['a norm of another width', {}, { 'cls.norm.weight': [8] }, /cls.norm.weight has 8 .* where 64 fit/],
  ] as const)('%s', (_what, metadata, tensors, message) => {
    const file = writeRandomReranker('bert-dense', { metadata, tensors });
    expect(() => open(file)).toThrow(message);
  });
});
