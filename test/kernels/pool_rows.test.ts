import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  poolRows as contract,
  POOL_FIRST,
  POOL_LAST,
  POOL_MEAN,
  POOL_MEAN_SO_FAR,
  POOL_PART,
} from '../../src/executor/kernels/index.js';
import { type PooledRows, poolRows } from './reference/pool_rows.js';
import { onEachTarget, type Target } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

const KINDS = { first: POOL_FIRST, last: POOL_LAST } as const;
const kindOf = ({ as, ends }: PooledRows): number =>
  as === 'mean' ? (ends ? POOL_MEAN : POOL_MEAN_SO_FAR) : KINDS[as];

interface Step {
  readonly x: Float32Array;
  readonly slices: readonly PooledRows[];
  readonly sums: Float64Array;
  readonly hidden: number;
}

/** Launches one step and compares it, bit by bit. @returns the sums of all slots after it */
async function pool(target: Target, { x, slices, sums, hidden }: Step): Promise<Float64Array> {
  const pools = Int32Array.from(
    slices.flatMap((slice) => [slice.slot, slice.first, slice.count, slice.before, kindOf(slice)]),
  );
  const untouched = new Float32Array(slices.length * hidden).fill(7);
  const dimensions = { rows: x.length / hidden, pools: slices.length, slots: sums.length / hidden };
  const values = { x, pools, sums: new Uint8Array(sums.slice().buffer), y: untouched, hidden };
  const after = await target.launch(contract, values, dimensions);
  const expected = poolRows(x, slices, sums, hidden);
  for (const [s, { as, ends }] of slices.entries()) {
    const row = <A extends Float32Array | Float64Array>(y: A) => y.subarray(s * hidden, (s + 1) * hidden);
    const reference = as === 'mean' && !ends ? row(untouched) : Float32Array.from(row(expected));
    expect(row(after.y as Float32Array)).toEqual(reference);
  }
  const summed = new Float64Array(Uint8Array.from(after.sums as Uint8Array).buffer);
  expect(summed).toEqual(sums);
  return summed;
}

const POOLINGS = ['mean', 'first', 'last'] as const;

onEachTarget('pool_rows', (target) => {
  it('pools slices of one step, and continues the sums of those before them', () =>
    target.check(
      fc.tuple(
        fc.array(size(40), { minLength: 1, maxLength: 8 }),
        size(3 * POOL_PART),
        fills('normal', 'special', 'denormal'),
        seed,
      ),
      async ([counts, hidden, kind, start]) => {
        const random = new Random(start);
        let first = random.below(3);
        const slices = counts.map((count, i): PooledRows => {
          const slice = { slot: 1 + ((2 * i) % 16), first, count, before: random.below(2) * random.below(70) };
          first += count + random.below(2);
          return { ...slice, as: POOLINGS[random.below(3)]!, ends: random.below(2) === 0 };
        });
        const x = fill(kind, (first + 1) * hidden, random);
        const sums = Float64Array.from(fill('normal', 17 * hidden, random));
        await pool(target, { x, slices, sums, hidden });
      },
    ));

  it.each([
    ['one row', 1, 64],
    ['rows of one element', 9, 1],
    ['rows that are no multiple of 32', 23, 67],
    ['rows of one part and an element', 16, POOL_PART + 1],
    ['many rows', 700, 33],
  ] as const)('%s', async (_name, count, hidden) => {
    const random = new Random(count + hidden);
    const x = fill('normal', count * hidden, random);
    const sums = new Float64Array(hidden).fill(Number.NaN);
    for (const as of POOLINGS)
      await pool(target, { x, hidden, sums, slices: [{ slot: 0, first: 0, count, before: 0, as, ends: true }] });
  });

  it('gives a mean the same bits in one slice, in several, and in any place of a step', async () => {
    const [count, hidden] = [61, 100];
    const random = new Random(61);
    const rows = fill('normal', count * hidden, random).map((value, i) => value * 10 ** ((i % 13) - 6));
    const mean = async (cuts: readonly number[], lead: number): Promise<Float32Array> => {
      let sums: Float64Array = new Float64Array(3 * hidden).fill(5);
      let last = new Float32Array(0);
      for (const [i, before] of cuts.entries()) {
        const end = cuts[i + 1] ?? count;
        const others = fill('normal', lead * hidden, random);
        const x = Float32Array.from([...others, ...rows.subarray(before * hidden, end * hidden)]);
        const ends = end === count;
        const slice: PooledRows = { slot: 2, first: lead, count: end - before, before, as: 'mean', ends };
        const other: PooledRows = { slot: 0, first: 0, count: 1, before: 0, as: 'mean', ends: false };
        const slices = lead === 0 ? [slice] : [other, slice];
        sums = await pool(target, { x, slices, sums, hidden });
        const y = poolRows(x, slices, sums.slice(), hidden);
        if (ends) last = Float32Array.from(y.subarray(y.length - hidden));
      }
      return last;
    };
    const whole = await mean([0], 0);
    for (const cuts of [[0], [0, 1], [0, 60], [0, 8, 16, 17, 40]])
      for (const lead of [0, 1, 5]) expect(await mean(cuts, lead)).toEqual(whole);
  });
});
