import { describe, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import { pooledStates } from '../../src/gateway/request/pooled-states.js';
import { llamaEmbeddings, POOLINGS, TEXTS, type TestedPooling } from '../support/encoder-answers.js';
import { EncoderSteps } from '../support/encoder-steps.js';
import { type EncoderOptions, float64Encoder } from '../support/float64-encoder.js';
import { RANDOM_ENCODER_NAMES, writeRandomEncoder } from '../support/random-encoders.js';

// f32 weights; what differs is the order of sums.
const BOUND = 1e-5;
// llama.cpp takes GELU from a table of f16, by its argument in f16: where that lies between two, the order of sums decides.
const TABLED = 1e-3;

const device = openDevice({ kind: 'host' });

/** The largest difference of elements from the reference, in the deviations of the reference’s elements. */
function difference(values: ArrayLike<number>, expected: ArrayLike<number>): number {
  const all = Array.from(expected);
  const deviation = Math.sqrt(all.reduce((sum, value) => sum + value ** 2, 0) / all.length);
  return Math.max(...all.map((value, i) => Math.abs(value - values[i]!))) / deviation;
}

/** Hidden states of each of the texts behind each other, in double precision. */
const referenceOf = (file: string, options?: EncoderOptions): Float64Array[] =>
  TEXTS.map((text) => Float64Array.from(float64Encoder(file, text, options).flatMap((row) => [...row])));

const poolings = Object.keys(POOLINGS) as readonly TestedPooling[];
const encoders = RANDOM_ENCODER_NAMES.flatMap((name) => poolings.map((pooling) => [name, pooling] as const));

describe('double precision gives llama.cpp’s embeddings', () => {
  it.each(encoders)('%s, pooled by %s', (name, pooling) => {
    const cases = llamaEmbeddings(name, pooling);
    const references = referenceOf(writeRandomEncoder(name), { geluTable: true });
    const differences = cases.map(({ tokens, embedding }, i) => {
      expect(tokens).toEqual(TEXTS[i]);
      const states = pooledStates(pooling, tokens.length, embedding.length);
      return difference(embedding, states.add(Float32Array.from(references[i]!))!);
    });
    console.log(`${name} by ${pooling}: ${differences.map((one) => one.toExponential(1))}`);
    expect(Math.max(...differences)).toBeLessThanOrEqual(name === 'nomic-bert' ? BOUND : TABLED);
  });
});

describe('a random encoder gives the hidden states of double precision', () => {
  it.each(RANDOM_ENCODER_NAMES)('%s', async (name) => {
    const file = writeRandomEncoder(name);
    const steps = await EncoderSteps.load(device, file);
    const states = await steps.states(TEXTS);
    const differences = referenceOf(file).map((expected, i) => difference(states[i]!, expected));
    console.log(`${name}: ${differences.map((one) => one.toExponential(1))}`);
    expect(Math.max(...differences)).toBeLessThanOrEqual(BOUND);
    steps.release();
  });
});
