import fc from 'fast-check';
import { expect, it } from 'vitest';
import { sumRanksSummed as contractOf, normParts, RANK_COUNTS, sumRanks } from '../../src/executor/kernels/index.js';
import { partsOfSquares } from './reference/rms_norm.js';
import { sumRanksSummed } from './reference/sum_ranks_summed.js';
import { toldWords, wordsAfter } from './support/barriers.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const MEETINGS = 3;

onEachTarget('sum_ranks_summed', (target) => {
  it('adds what sum_ranks adds, to the bit, and leaves the sums of squares', () =>
    target.check(
      fc.tuple(fc.constantFrom(...RANK_COUNTS), size(150), fills(...FINITE), seed),
      async ([ranks, units, kind, start]) => {
        const random = new Random(start);
        const columns = 16 * units;
        const [rank, barrier, pass] = [random.below(ranks), random.below(MEETINGS), random.below(1000)];
        const parts = Array.from({ length: ranks }, () => fill(kind, columns, random));
        const y = fill(kind, columns, random);
        const words = toldWords(ranks, rank, MEETINGS, barrier, pass);
        const values = {
          ...Object.fromEntries(parts.map((part, i) => [`p${i}`, part])),
          ...{ pass: Int32Array.of(pass), ended: Int32Array.of(-(2 ** 30)), columns },
          ...{ rank, barrier, patience_ms: 1000 },
        };
        const dims = { rows: 1, barriers: MEETINGS };
        const contract = contractOf(ranks);
        const own = { ...dims, parts: normParts(columns) };
        const summed = await target.launch(contract, { ...values, ...words, y: y.slice() }, own);
        const apart = await target.launch(sumRanks(ranks), { ...values, ...words, y: y.slice(), accumulate: 1 }, dims);
        expect(summed.y).toEqual(apart.y);
        expect(summed.parts).toEqual(partsOfSquares(apart.y as Float32Array));
        expect(summed).toMatchObject(wordsAfter(words, rank, barrier, pass));
        expectClose(contract, summed.y!, { values: sumRanksSummed(parts, y) }, { columns });
      },
    ));
});
