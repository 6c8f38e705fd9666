import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sumRanks as contractOf, RANK_COUNTS, WORDS_A_BARRIER } from '../../src/executor/kernels/index.js';
import { sumRanks } from './reference/sum_ranks.js';
import { toldWords, wordsAfter } from './support/barriers.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const MEETINGS = 3;
const NEVER = -(2 ** 30);

onEachTarget('sum_ranks', (target) => {
  it('adds the parts in the order of ranks, to what is there or not, and tells all others that this one came', () =>
    target.check(
      fc.tuple(fc.constantFrom(...RANK_COUNTS), size(5), size(600), fills(...FINITE, 'special'), fc.boolean(), seed),
      async ([ranks, rows, fours, kind, isAdded, start]) => {
        const random = new Random(start);
        const columns = 4 * fours;
        const contract = contractOf(ranks);
        const [rank, barrier] = [random.below(ranks), random.below(MEETINGS)];
        // Numbers of passes go round.
        const pass = random.below(2) === 0 ? 2 ** 31 - 1 : -(2 ** 31) + random.below(1000);
        const parts = Array.from({ length: ranks }, () => fill(kind, rows * columns, random));
        const y = fill(kind, rows * columns, random);
        const words = toldWords(ranks, rank, MEETINGS, barrier, pass);
        const values = {
          ...Object.fromEntries(parts.map((part, i) => [`p${i}`, part])),
          ...words,
          ...{ pass: Int32Array.of(pass), ended: Int32Array.of(pass ^ NEVER), y, columns },
          ...{ accumulate: Number(isAdded), rank, barrier, patience_ms: 1000 },
        };
        const result = await target.launch(contract, values, { rows, barriers: MEETINGS });
        expectClose(contract, result.y!, { values: sumRanks(parts, isAdded ? y : undefined) }, { columns });
        expect(result).toMatchObject(wordsAfter(words, rank, barrier, pass));
        expect(result.ended).toEqual(Int32Array.of(pass ^ NEVER));
      },
    ));

  it('ends the pass when a rank does not come for as long as it waits, and waits for nobody in one that was ended', async () => {
    const contract = contractOf(2);
    for (const [ended, patience_ms] of [
      [NEVER, 5],
      [7, 60_000],
      [7 + 5, 60_000],
    ] as const) {
      const zeros = new Float32Array(64);
      const values = {
        ...{ p0: zeros, p1: zeros, y: zeros, columns: 64, accumulate: 0, rank: 0, barrier: 0, patience_ms },
        ...{ w0: new Int32Array(WORDS_A_BARRIER), w1: new Int32Array(WORDS_A_BARRIER) },
        ...{ pass: Int32Array.of(7), ended: Int32Array.of(ended) },
      };
      const result = await target.launch(contract, values, { rows: 1, barriers: 1 });
      expect(result.ended).toEqual(Int32Array.of(ended === NEVER ? 7 : ended));
    }
  });
});
