import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MergeTable } from '../../../src/lib/tokenizer/merge-table.js';
import { mergeByHeap, mergeByScan, mergeSymbols } from '../../../src/lib/tokenizer/symbol-merger.js';
import { runs } from '../../support/run-size.js';

type Merge = readonly [left: number, right: number, rank: number];

/** Symbols 0 to 3 are given, each merge makes the next one; ranks repeat, as scores do. */
const merges = fc.array(fc.tuple(fc.nat(12), fc.nat(12), fc.nat(4)), { maxLength: 25 });
/** Each makes one of symbols 4 to 7, of which most pairs merge, too: what merges next changes with each merge. */
const dense = fc.array(fc.tuple(fc.nat(7), fc.nat(7), fc.nat(60)), { minLength: 20, maxLength: 60 });

function tableOf(list: readonly Merge[], isDense = false): MergeTable {
  const table = new MergeTable(list.length);
  for (const [i, [left, right, rank]] of list.entries()) table.add(left, right, rank, 4 + (isDense ? i % 4 : i));
  return table;
}

function run(merge: typeof mergeSymbols, symbols: readonly number[], table: MergeTable): number[] {
  const copy = Int32Array.from(symbols);
  return [...copy.subarray(0, merge(copy, copy.length, table))];
}

describe('merging symbols', () => {
  it.each([
    ['few pairs merge', merges, false],
    ['most pairs merge', dense, true],
  ] as const)('gives the same by heap as by scanning for the best pair, where %s', (_what, lists, isDense) => {
    fc.assert(
      fc.property(lists, fc.array(fc.nat(3), { maxLength: 80 }), (list, symbols) => {
        const table = tableOf(list, isDense);
        const expected = run(mergeByScan, symbols, table);
        expect(run(mergeByHeap, symbols, table)).toEqual(expected);
        expect(run(mergeSymbols, symbols, table)).toEqual(expected);
      }),
      { numRuns: runs(1000) },
    );
  });

  it('gives a pair that has become another its own rank', () => {
    // The second and third merge first, to 4; then what the first and this one would make waits for the last two.
    const table = tableOf([
      [1, 2, 3],
      [0, 1, 5],
      [4, 3, 7],
      [0, 4, 9],
    ]);
    for (const merge of [mergeByScan, mergeByHeap]) expect(run(merge, [0, 1, 2, 3], table)).toEqual([0, 6]);
  });

  it('takes the leftmost of equal ranks', () => {
    expect(run(mergeByHeap, [0, 0, 0], tableOf([[0, 0, 1]]))).toEqual([4, 0]);
  });
});

describe('a merge table', () => {
  it('keeps the first merge of a pair and finds all that were added', () => {
    fc.assert(
      fc.property(merges, (list) => {
        const table = tableOf(list);
        const first = new Map<string, number>();
        list.forEach(([left, right], i) => {
          const key = `${left} ${right}`;
          if (!first.has(key)) first.set(key, 4 + i);
        });
        for (const [left, right] of list)
          expect(table.result(table.find(left, right))).toBe(first.get(`${left} ${right}`));
        expect(table.find(99, 99)).toBe(-1);
      }),
    );
  });

  it('refuses more pairs than it was made for', () => {
    const table = new MergeTable(0);
    expect(() => table.add(1, 2, 0, 3)).toThrow(/full at 0 pairs/);
  });
});
