import fc from 'fast-check';
import { expect, it } from 'vitest';
import { tokenHistory as contract } from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { tokenHistory } from './reference/token_history.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

onEachTarget('token_history', (target) => {
  it('counts a known token, adds a new one, and leaves a full history and other slots alone', () =>
    target.check(fc.tuple(size(6), size(600), seed), async ([slot_count, entries, start]) => {
      const random = new Random(start);
      const slot_words = SlotWord.blockTable;
      const width = 1 + 2 * entries;
      const vocabulary = entries + 3;
      const slots = new Int32Array(slot_count * slot_words);
      const history = new Int32Array(slot_count * width);
      for (let slot = 0; slot < slot_count; slot++) {
        slots[slot * slot_words + SlotWord.lastToken] = random.below(vocabulary);
        const count = random.next() < 0.3 ? entries : random.below(entries + 1);
        const tokens = random.permutation(vocabulary).slice(0, count);
        history.set([count, ...tokens.flatMap((token) => [token, random.below(5)])], slot * width);
      }
      const sampled = random.permutation(slot_count).slice(0, 1 + random.below(slot_count));
      const rows = random.permutation(sampled.length);
      const row_slot = new Int32Array(sampled.length);
      for (const [i, row] of rows.entries()) row_slot[row] = sampled[i]!;
      const result = await target.launch(
        contract,
        { sample_row: Int32Array.from(rows), row_slot, slots, history, slot_words, entries },
        { samples: sampled.length, tokens: sampled.length, slot_count },
      );
      const expected = history.slice();
      for (const slot of sampled) {
        const own = history.slice(slot * width, (slot + 1) * width);
        expected.set(tokenHistory(own, slots[slot * slot_words + SlotWord.lastToken]!), slot * width);
      }
      expect(result.history).toEqual(expected);
    }));
});
