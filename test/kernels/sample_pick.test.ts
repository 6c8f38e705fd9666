import fc from 'fast-check';
import { expect, it } from 'vitest';
import { OUTPUT_NON_FINITE, sample } from '../../src/executor/kernels/index.js';
import { acceptablePicks } from './reference/sample_pick.js';
import { randomRows, SampledStep } from './support/sampled-rows.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random, seed, size } from './support/values.js';

const samplings = fc.array(
  fc.record({
    temperature: fc.constantFrom(0, 1e-40, 0.1, 0.7, 1, 2).map(Math.fround),
    topK: fc.constantFrom(0, 0, 1, 5, 40, 1000),
    typicalP: fc.constantFrom(1, 1, 0.9, 0.3).map(Math.fround),
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

  it('chooses what sample chooses where candidates are few, many, and too many', async () => {
    const vocabulary = target.simulated ? 9000 : 40_000;
    const plain = { temperature: 1, topK: 0, typicalP: 1, topP: 1, minP: 0, seed: [3, 4], sampleIndex: 0 } as const;
    const samplings = [
      { ...plain, topK: 40, topP: Math.fround(0.95) },
      { ...plain, topP: Math.fround(0.95), temperature: 100 },
      { ...plain, topK: 6000 },
      { ...plain, topP: 0.5, minP: Math.fround(0.05) },
    ];
    const spread = fill('normal', vocabulary, new Random(1));
    // All in one bin, and all in one part of the row.
    const narrow = spread.map((value) => 1e-3 * value);
    const sorted = spread.map((value) => 8 * value).sort();
    const rows = [spread, narrow, sorted].flatMap((logits) =>
      samplings.map((sampling) => ({ logits, sampling, position: 7, adjusts: 'no' as const })),
    );
    const step = new SampledStep(rows);
    const { slots, sample_row, row_slot, slot_words } = step.shared;
    const output = new Int32Array(rows.length);
    const whole = await target.launch(
      sample,
      {
        ...{ logits: step.logits, slots, sample_row, row_slot, slot_words, vocabulary },
        ...{ row_position: step.rowPosition, output, output_words: 1 },
      },
      step.dimensions,
    );
    expect((await step.pick(target)).tokens).toEqual([...whole.output!]);
  });

  it('tells, as sample does, of a row that no token can be drawn for', async () => {
    const greedy = { temperature: 0, topK: 0, typicalP: 1, topP: 1, minP: 0, seed: [1, 2], sampleIndex: 0 } as const;
    const parameters = [greedy, { ...greedy, temperature: 1 }, { ...greedy, temperature: 1, topK: 3 }];
    const broken = [Number.NaN, Number.POSITIVE_INFINITY].flatMap((value) =>
      [0, 64, 129].map((at) => {
        const logits = fill('normal', 130, new Random(at));
        logits[at] = value;
        return logits;
      }),
    );
    const masked = new Float32Array(130).fill(Number.NEGATIVE_INFINITY);
    const rows = [...broken, masked].flatMap((logits) =>
      parameters.flatMap((sampling) =>
        (['no', 'bias'] as const).map((adjusts) => ({ logits, sampling, position: 1, adjusts })),
      ),
    );
    const { tokens, lastTokens } = await new SampledStep(rows).pick(target);
    expect(tokens).toEqual(rows.map(() => OUTPUT_NON_FINITE));
    expect(lastTokens).toEqual(rows.map(() => 0));
    const one = masked.slice();
    one[100] = -3;
    const drawn = parameters.map((sampling) => ({ logits: one, sampling, position: 1, adjusts: 'no' as const }));
    expect((await new SampledStep(drawn).pick(target)).tokens).toEqual(drawn.map(() => 100));
  });
});
