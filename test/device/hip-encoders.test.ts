import { beforeAll, describe, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { Pooling } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { randomText } from '../support/encoder-answers.js';
import { EncoderSteps, POOLED_AS } from '../support/encoder-steps.js';
import { float64Encoder } from '../support/float64-encoder.js';
import { float64Head } from '../support/float64-head.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { pooledStates } from '../support/pooled-states.js';
import { RANDOM_ENCODER_NAMES, writeRandomEncoder } from '../support/random-encoders.js';
import { RANDOM_RERANKER_NAMES, writeRandomReranker } from '../support/reranker-answers.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const KINDS = Object.entries(POOLED_AS) as readonly (readonly [keyof typeof POOLED_AS, Pooling])[];

// The device simulates every thread.
describe.skipIf(missing !== undefined)('each encoder on a HIP device', () => {
  const double = new HipDouble();
  beforeAll(() => double.install());

  // Heads of 16 have a row a block, those of 32 tiles.
  it.each(RANDOM_ENCODER_NAMES.flatMap((name) => [[name, 16] as const, [name, 32] as const]))(
    '%s with heads of %i gives the hidden states of double precision, alone and among others',
    {
      timeout: 600_000,
    },
    async (name, headDim) => {
      const file = writeRandomEncoder(name, { hidden: 4 * headDim, headDim });
      const steps = await EncoderSteps.load(openDevice({ kind: 'hip' }), file, { maxSequences: 4, maxContext: 64 });
      const texts = [randomText(40, 1), randomText(2, 2), randomText(9, 3)];
      const states = await steps.states(texts);
      for (const [i, text] of texts.entries()) {
        const expected = float64Encoder(file, text).flatMap((row) => [...row]);
        const deviation = Math.sqrt(expected.reduce((sum, value) => sum + value ** 2, 0) / expected.length);
        const difference = Math.max(...expected.map((value, j) => Math.abs(value - states[i]![j]!)));
        expect(difference / deviation).toBeLessThanOrEqual(1e-5);
      }
      const [alone] = await steps.states([texts[2]!]);
      expect(states[2]).toEqual(alone);
      const pooled = await steps.returned(texts, (slice, i) => ({ ...slice, pooling: KINDS[i]![1] }));
      for (const [i, { length }] of texts.entries())
        expect(pooled[i]).toEqual(pooledStates(KINDS[i]![0], length, pooled[i]!.length).add(states[i]!));
      steps.release();
    },
  );

  it.each(RANDOM_RERANKER_NAMES)(
    'the head of %s gives the scores of double precision, alone and among others',
    { timeout: 600_000 },
    async (name) => {
      const file = writeRandomReranker(name);
      const steps = await EncoderSteps.load(openDevice({ kind: 'hip' }), file, { maxSequences: 4, maxContext: 64 });
      const texts = [randomText(20, 1), randomText(2, 2), randomText(9, 3)];
      const states = await steps.pooled(texts, POOLED_AS.mean);
      const scores = await steps.scores(texts, POOLED_AS.mean);
      for (const [i, state] of states.entries())
        expect(Math.abs(scores[i]![0]! - float64Head(file)(state))).toBeLessThanOrEqual(4e-5);
      const [alone] = await steps.scores([texts[2]!], POOLED_AS.mean);
      expect(scores[2]).toEqual(alone);
      steps.release();
    },
  );
});
