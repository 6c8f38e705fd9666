import fc from 'fast-check';
import { expect, it } from 'vitest';
import { gatherRanks as contractOf, RANK_COUNTS } from '../../src/executor/kernels/index.js';
import { gatherRanks } from './reference/gather_ranks.js';
import { toldWords, wordsAfter } from './support/barriers.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const MEETINGS = 2;

onEachTarget('gather_ranks', (target) => {
  it('puts the rows of all ranks side by side, of the last one what is left', () =>
    target.check(
      fc.tuple(fc.constantFrom(...RANK_COUNTS), size(5), size(700), fills('normal', 'special', 'denormal'), seed),
      async ([ranks, rows, part, kind, start]) => {
        const random = new Random(start);
        const contract = contractOf(ranks);
        const widths = Array.from({ length: ranks }, (_, i) => (i === ranks - 1 ? 1 + random.below(part) : part));
        const columns = widths.reduce((sum, width) => sum + width, 0);
        const [rank, barrier, pass] = [random.below(ranks), random.below(MEETINGS), random.below(1000)];
        // There is room for as much of the last one as of the others.
        const parts = widths.map(() => fill(kind, rows * part, random));
        const words = toldWords(ranks, rank, MEETINGS, barrier, pass);
        const values = {
          ...Object.fromEntries(parts.map((own, i) => [`p${i}`, own])),
          ...words,
          ...{ pass: Int32Array.of(pass), ended: Int32Array.of(-(2 ** 30)), columns, part },
          ...{ rank, barrier, patience_ms: 1000 },
        };
        const dimensions = { rows, barriers: MEETINGS };
        const result = await target.launch(contract, values, dimensions);
        expectClose(contract, result.y!, { values: gatherRanks(parts, widths, rows) }, dimensions);
        expect(result).toMatchObject(wordsAfter(words, rank, barrier, pass));
      },
    ));
});
