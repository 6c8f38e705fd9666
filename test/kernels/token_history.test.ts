import fc from 'fast-check';
import { expect, it } from 'vitest';
import { tokenHistory as contract, OUTPUT_NON_FINITE, OUTPUT_WORDS } from '../../src/executor/kernels/index.js';
import { tokenHistory } from './reference/token_history.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('token_history', (target) => {
  it('counts a known token, adds a new one, and leaves a full history, other slots and those without a token alone', () =>
    target.check(fc.tuple(size(6), size(600), seed), async ([slot_count, entries, start]) => {
      const random = new Random(start);
      const width = 1 + 2 * entries;
      const vocabulary = entries + 3;
      const history = new Int32Array(slot_count * width);
      for (let slot = 0; slot < slot_count; slot++) {
        const count = random.next() < 0.3 ? entries : random.below(entries + 1);
        const tokens = random.permutation(vocabulary).slice(0, count);
        history.set([count, ...tokens.flatMap((token) => [token, random.below(5)])], slot * width);
      }
      const sampled = random.permutation(slot_count).slice(0, 1 + random.below(slot_count));
      const rows = random.permutation(sampled.length);
      const row_slot = new Int32Array(sampled.length);
      for (const [i, row] of rows.entries()) row_slot[row] = sampled[i]!;
      const tokens = sampled.map(() => (random.next() < 0.2 ? OUTPUT_NON_FINITE : random.below(vocabulary)));
      const output = Int32Array.from(tokens.flatMap((token) => [token, ...Array(OUTPUT_WORDS - 1).fill(-7)]));
      const result = await target.launch(
        contract,
        {
          ...{ draws: Int32Array.of(sampled.length), sample_row: Int32Array.from(rows), row_slot },
          ...{ row_token: new Int32Array(sampled.length), output, history, output_words: OUTPUT_WORDS, entries },
        },
        { samples: sampled.length, tokens: sampled.length, slot_count },
      );
      const expected = history.slice();
      for (const [i, slot] of sampled.entries()) {
        if (tokens[i] === OUTPUT_NON_FINITE) continue;
        const own = history.slice(slot * width, (slot + 1) * width);
        expected.set(tokenHistory(own, tokens[i]!), slot * width);
      }
      expect(result.history).toEqual(expected);
    }));

  it('counts what is sampled behind draftTokens as long as they are what was sampled', () =>
    target.check(fc.tuple(size(4), size(200), seed), async ([slot_count, entries, start]) => {
      const random = new Random(start);
      const width = 1 + 2 * entries;
      const history = new Int32Array(slot_count * width);
      const expected = history.slice();
      const rows: { slot: number; token: number; sampled: number }[] = [];
      for (const slot of random.permutation(slot_count)) {
        let [token, counts] = [random.below(5), true];
        let own: Int32Array = history.slice(slot * width, (slot + 1) * width);
        for (let row = 0; row <= random.below(7); row++) {
          const sampled = random.next() < 0.1 ? OUTPUT_NON_FINITE : random.below(5);
          counts &&= sampled !== OUTPUT_NON_FINITE;
          if (counts) own = tokenHistory(own, sampled);
          rows.push({ slot, token, sampled });
          token = random.next() < 0.7 ? sampled : random.below(5);
          counts &&= token === sampled;
        }
        expected.set(own, slot * width);
      }
      const output = Int32Array.from(rows.flatMap(({ sampled }) => [sampled, ...Array(OUTPUT_WORDS - 1).fill(-7)]));
      // A row that only fills the grid, of a slot that keeps no history.
      const row_slot = Int32Array.from([...rows.map(({ slot }) => slot), slot_count]);
      const result = await target.launch(
        contract,
        {
          ...{ draws: Int32Array.of(rows.length), sample_row: Int32Array.from(row_slot, (_, i) => i), row_slot },
          ...{
            row_token: Int32Array.from([...rows.map(({ token }) => token), 0]),
            output_words: OUTPUT_WORDS,
            entries,
          },
          ...{ output: Int32Array.from([...output, ...Array(OUTPUT_WORDS).fill(3)]) },
          history: Int32Array.from([...history, -1, ...Array(width - 1).fill(0)]),
        },
        { samples: row_slot.length, tokens: row_slot.length, slot_count: slot_count + 1 },
      );
      expect(result.history!.subarray(0, slot_count * width)).toEqual(expected);
      expect(result.history![slot_count * width]).toBe(-1);
    }));
});
