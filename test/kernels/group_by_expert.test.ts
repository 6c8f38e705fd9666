import fc from 'fast-check';
import { expect, it } from 'vitest';
import { groupByExpert as contract } from '../../src/executor/kernels/index.js';
import { groupByExpert } from './reference/group_by_expert.js';
import { onEachTarget } from './support/targets.js';
import { Random, seed, size } from './support/values.js';

const UNTOUCHED = -7;

onEachTarget('group_by_expert', (target) => {
  it('gives each expert a run of its rows, in order, and tells where each lies', () =>
    target.check(
      fc.tuple(
        fc.record({ rows: size(target.simulated ? 40 : 600), experts: size(target.simulated ? 20 : 300) }),
        fc.record({ most: fc.integer({ min: 1, max: 8 }), missing: fc.nat(3), align: fc.constantFrom(1, 8) }),
        seed,
      ),
      async ([{ rows, experts }, { most, missing, align }, start]) => {
        const random = new Random(start);
        const [used, tokens] = [Math.min(most, experts), Math.max(0, rows - missing)];
        const all = Array.from({ length: experts }, (_, e) => e);
        const ids = Int32Array.from(
          Array.from({ length: rows }, () => {
            for (let i = 0; i < used; i++) {
              const other = i + random.below(experts - i);
              [all[i], all[other]] = [all[other]!, all[i]!];
            }
            return all.slice(0, used).sort((a, b) => a - b);
          }).flat(),
        );
        const expected = groupByExpert(ids.subarray(0, tokens * used), experts, used, align);
        const places = rows * used * align;
        const result = await target.launch(
          contract,
          {
            ...{ ids, tokens: Int32Array.of(tokens), experts, used, align },
            row_of: new Int32Array(places).fill(UNTOUCHED),
            place_of: new Int32Array(rows * used).fill(UNTOUCHED),
          },
          { rows, places },
        );
        const runs = result.runs as Int32Array;
        expect([...runs]).toEqual([...expected.runs]);
        const rowOf = Array.from({ length: places }, (_, place) => expected.rowOf.get(place) ?? UNTOUCHED);
        expect([...(result.row_of as Int32Array)]).toEqual(rowOf);
        const placeOf = Array.from({ length: rows * used }, (_, pair) => expected.placeOf[pair] ?? UNTOUCHED);
        expect([...(result.place_of as Int32Array)]).toEqual(placeOf);
      },
    ));
});
