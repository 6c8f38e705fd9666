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
        { sample_row: Int32Array.from(rows), row_slot, output, history, output_words: OUTPUT_WORDS, entries },
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
});
