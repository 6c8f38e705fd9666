import { describe, expect, it } from 'vitest';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { Pooling } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { llamaEmbeddings, POOLINGS, randomText, TEXTS, type TestedPooling } from '../support/encoder-answers.js';
import { EncoderSteps, POOLED_AS } from '../support/encoder-steps.js';
import { type EncoderOptions, float64Encoder } from '../support/float64-encoder.js';
import { pooledStates } from '../support/pooled-states.js';
import {
  RANDOM_ENCODER_NAMES,
  RANDOM_ENCODERS,
  type RandomEncoderName,
  writeRandomEncoder,
} from '../support/random-encoders.js';
import { isFull } from '../support/run-size.js';

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

/** Blocks of 32 alike, and a mixture of blocks of 256, as llama.cpp has them. */
const QUANTIZATIONS = {
  Q8_0: (): TensorTypeName => 'Q8_0',
  Q4_K_M: (kind: string): TensorTypeName => (['attn_v', 'ffn_down'].includes(kind) ? 'Q6_K' : 'Q4_K'),
} as const;
const quantized = RANDOM_ENCODER_NAMES.flatMap((name) =>
  (Object.keys(QUANTIZATIONS) as (keyof typeof QUANTIZATIONS)[])
    .filter((weights) => isFull || name === 'bert' || weights === 'Q4_K_M')
    .map((weights) => [name, weights] as const),
);

/** Widths of whole blocks of 256; jina-bert-v2 has six heads where others have four. */
const widthOf = (name: RandomEncoderName): number => (name === 'jina-bert-v2' ? 512 : 256);

/**
 * Error of int8 activations: a step is a 127th of the largest of 32 normal numbers, some 2.3 of their deviations, and rounding is off
 * by a step / √12. Each layer rounds what its four products take; twice that, for what the gate multiplies.
 */
const boundOf = (name: RandomEncoderName): number =>
  (2 * Math.sqrt(4 * RANDOM_ENCODERS[name].layers) * 2.3) / 127 / Math.sqrt(12);

describe('a quantized encoder gives the hidden states of double precision', () => {
  it.each(quantized)('%s in %s', async (name, weights) => {
    const file = writeRandomEncoder(name, { hidden: widthOf(name), blocks: QUANTIZATIONS[weights] });
    const text = randomText(40, 4);
    const steps = await EncoderSteps.load(device, file);
    const [states] = await steps.states([text]);
    const expected = float64Encoder(file, text).flatMap((row) => [...row]);
    const squares = (values: readonly number[]) => values.reduce((sum, value) => sum + value ** 2, 0);
    const relative = Math.sqrt(squares(expected.map((value, i) => value - states![i]!)) / squares(expected));
    console.log(`${name}, ${weights}: ${relative.toExponential(1)} of ${boundOf(name).toExponential(1)}`);
    expect(relative).toBeLessThanOrEqual(boundOf(name));
    expect(relative).toBeGreaterThan(0);
    steps.release();
  });
});

describe('an input has the same bits alone and among 15 others, in any place', () => {
  it.each(RANDOM_ENCODER_NAMES.flatMap((name) => [[name, 'F32'] as const, [name, 'Q8_0'] as const]))(
    '%s in %s',
    async (name, type) => {
      const options = type === 'F32' ? {} : { hidden: 256, blocks: QUANTIZATIONS.Q8_0 };
      const steps = await EncoderSteps.load(device, writeRandomEncoder(name, options), { maxStepTokens: 900 });
      const texts = Array.from({ length: 16 }, (_, i) => randomText(2 + ((i * 29) % 90), 10 + i));
      const together = await steps.states(texts);
      const reversed = (await steps.states(texts.toReversed())).toReversed();
      for (const [i, text] of texts.entries()) {
        const [alone] = await steps.states([text]);
        expect(together[i]).toEqual(alone);
        expect(reversed[i]).toEqual(alone);
      }
      steps.release();
    },
  );
});

describe('an input is pooled to the bits of its states', () => {
  it.each(RANDOM_ENCODER_NAMES)('%s', async (name) => {
    const steps = await EncoderSteps.load(device, writeRandomEncoder(name), { maxStepTokens: 900 });
    const texts = Array.from({ length: 12 }, (_, i) => randomText(1 + ((i * 29) % 90), 40 + i));
    const states = await steps.states(texts);
    for (const pooling of poolings) {
      const pooled = await steps.pooled(texts, POOLED_AS[pooling]);
      for (const [i, { length }] of texts.entries()) {
        const expected = pooledStates(pooling, length, pooled[i]!.length).add(states[i]!);
        expect(pooled[i]).toEqual(expected);
      }
    }
    steps.release();
  });

  it('each by a pooling of its own, beside inputs that are not pooled', async () => {
    const steps = await EncoderSteps.load(device, writeRandomEncoder('bert'));
    const texts = [TEXTS[2]!, TEXTS[1]!, TEXTS[2]!, TEXTS[1]!, TEXTS[2]!];
    const kinds = [Pooling.NONE, Pooling.MEAN, Pooling.LAST, Pooling.NONE, Pooling.FIRST];
    const together = await steps.returned(texts, (slice, i) => ({ ...slice, pooling: kinds[i]! }));
    for (const [i, text] of texts.entries()) {
      const [alone] = await steps.returned([text], (slice) => ({ ...slice, pooling: kinds[i]! }));
      expect(together[i]).toEqual(alone);
    }
    steps.release();
  });
});

describe('a step that breaks the protocol of encoders is refused', () => {
  it.each([
    ['a part of an input', { count: 20 }, /positions 0 to 20 of slot 0, whose rows see all/],
    ['an input from its second position on', { position: 1, count: 32 }, /positions 1 to 33/],
    ['a sampled token', { sample: true }, /of a model without logits/],
    ['a step without hidden states', { pooling: Pooling.UNSPECIFIED }, /of a model without logits/],
    ['scores without a head', { pooling: Pooling.MEAN, score: true }, /scores of slot 0, which has none/],
    ['scores of states that are not pooled', { score: true }, /scores of slot 0, which has none/],
  ] as const)('%s', async (_name, change, message) => {
    const steps = await EncoderSteps.load(device, writeRandomEncoder('bert'));
    await expect(steps.states([TEXTS[2]!], (slice) => ({ ...slice, ...change }))).rejects.toThrow(message);
    steps.release();
  });
});

describe('commands that generate', () => {
  it('refuse an encoder by name', async () => {
    const load = { maxContext: 64, maxSequences: 1, maxStepTokens: 0, kvMemoryBytes: 0, kvCacheType: 'f32' } as const;
    const model = await loadModel(device, { path: writeRandomEncoder('bert'), fingerprint: '', ...load }, () => {});
    expect(() => new StepDriver(device, model, 1n)).toThrow(/the model is an encoder, which generates nothing/);
    model.release();
  });
});
