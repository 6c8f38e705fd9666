import fc from 'fast-check';
import { it } from 'vitest';
import { penalties as contract } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { type HeldToken, penalties, withGenerated } from './reference/penalties.js';
import { expectClose } from './support/compare.js';
import { bitsOf } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const penaltyOf = fc.record({
  repetition: fc.constantFrom(1, 1.1, 0.5, 2).map(Math.fround),
  frequency: fc.constantFrom(0, 0.25, -0.5, 2).map(Math.fround),
  presence: fc.constantFrom(0, 0.125, -1, 2).map(Math.fround),
});

onEachTarget('penalties', (target) => {
  it('lowers the logits of held tokens, and of draftTokens in rows behind them, and leaves the others alone', () =>
    target.check(
      fc.tuple(
        size(1200),
        fc.array(penaltyOf, { minLength: 1, maxLength: 4 }),
        fills('normal', 'zeros', 'special'),
        seed,
      ),
      async ([vocabulary, rows, kind, start]) => {
        const random = new Random(start);
        const entries = 300;
        const slot_words = SlotWord.blockTable;
        const slot_count = rows.length;
        // Slots are sampled in reverse; tokens of their rows from few, so that some are held, and some come twice.
        const drafted = rows.map(() => Array.from({ length: random.below(4) }, () => random.below(vocabulary) % 9));
        const order = rows
          .map((_, i) => slot_count - 1 - i)
          .flatMap((slot) => [slot, ...drafted[slot]!.map(() => slot)]);
        const samples = order.length;
        const row_token = Int32Array.from(
          rows.flatMap((_, i) => [random.below(vocabulary) % 9, ...drafted[slot_count - 1 - i]!]),
        );
        const logits = fill(kind, samples * vocabulary, random);
        const slots = new Int32Array(slot_count * slot_words);
        const history = new Int32Array(slot_count * (1 + 2 * entries)).fill(-1);
        const held: HeldToken[][] = [];
        rows.forEach(({ repetition, frequency, presence }, slot) => {
          slots[slot * slot_words + SlotWord.repetitionPenalty] = bitsOf(repetition);
          slots[slot * slot_words + SlotWord.frequencyPenalty] = bitsOf(frequency);
          slots[slot * slot_words + SlotWord.presencePenalty] = bitsOf(presence);
          const tokens = random.permutation(vocabulary).slice(0, random.below(entries + 1));
          held.push(tokens.map((token) => ({ token, generated: random.below(4) })));
          const words = held[slot]!.flatMap(({ token, generated }) => [token, generated]);
          history.set([tokens.length, ...words], slot * (1 + 2 * entries));
        });
        const result = await target.launch(
          contract,
          {
            logits,
            sample_row: Int32Array.from(order, (_, i) => i),
            row_slot: Int32Array.from(order),
            row_token,
            slots,
            history,
            slot_words,
            entries,
            vocabulary,
          },
          { samples, tokens: samples, slot_count },
        );
        const values = new Float64Array(logits.length);
        for (let i = 0; i < samples; i++) {
          const slot = order[i]!;
          const { repetition, frequency, presence } = rows[slot]!;
          const row = logits.subarray(i * vocabulary, (i + 1) * vocabulary);
          const holds = withGenerated(held[slot]!, drafted[slot]!.slice(0, i - order.indexOf(slot)));
          values.set(penalties(row, holds, repetition, frequency, presence), i * vocabulary);
        }
        expectClose(contract, result.logits!, { values }, {});
      },
    ));
});
