import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sample } from '../../src/executor/kernels/contracts/index.js';
import { acceptablePicks } from './reference/sample_pick.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

const samplings = fc.array(
  fc.record({
    temperature: fc.constantFrom(0, 0.1, 0.7, 1, 2).map(Math.fround),
    topK: fc.constantFrom(0, 0, 1, 5, 40, 1000),
    topP: fc.constantFrom(1, 1, 0.95, 0.5, 0).map(Math.fround),
    minP: fc.constantFrom(0, 0, 0.05, 1).map(Math.fround),
    seed: fc.tuple(fc.integer(), fc.integer()),
    sampleIndex: fc.nat(3),
  }),
  { minLength: 1, maxLength: 4 },
);

onEachTarget('sample_pick', (target) => {
  it('chooses, after sample_best and sample_draw, the tokens that sample chooses', () =>
    target.check(
      fc.tuple(size(5), size(target.simulated ? 700 : 3000), samplings, seed),
      async ([count, vocabulary, parameters, start]) => {
        const step = new SampledStep(randomRows(count, vocabulary, parameters, new Random(start)));
        const { tokens, lastTokens } = await step.pick(target);
        expect(lastTokens).toEqual(tokens);
        step.rows.forEach(({ logits, sampling, position }, i) => {
          expect([...acceptablePicks(logits, position, sampling)]).toContain(tokens[i]);
        });

        const { slots, sample_row, row_slot, slot_words } = step.shared;
        const logits = Float32Array.from(step.rows.flatMap((row) => [...row.logits]));
        const whole = await target.launch(
          sample,
          {
            ...{ logits, slots, sample_row, row_slot, slot_words, vocabulary },
            ...{ row_position: step.rowPosition, output: new Int32Array(count), output_words: 1 },
          },
          step.dimensions,
        );
        expect(tokens).toEqual([...whole.output!]);
      },
    ));

  it('never chooses a NaN, and the first token where there is nothing else', async () => {
    const nan = new Float32Array(130).fill(Number.NaN);
    const greedy = { temperature: 0, topK: 0, topP: 1, minP: 0, seed: [1, 2], sampleIndex: 0 } as const;
    const one = nan.slice();
    one[100] = -3;
    const rows = [one, nan].flatMap((logits) =>
      [greedy, { ...greedy, temperature: 1 }].map((sampling) => ({
        logits,
        sampling,
        position: 1,
        adjusts: 'no' as const,
      })),
    );
    expect((await new SampledStep(rows).pick(target)).tokens).toEqual([100, 100, 0, 0]);
  });
});
