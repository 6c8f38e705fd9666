import fc from 'fast-check';
import { expect, it } from 'vitest';
import { groupsNorm as contract, rmsNorm } from '../../src/executor/kernels/index.js';
import { groupsNorm } from './reference/groups_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

/** On both sides of what the threads of a block hold, and of a length that they take one by one. */
const WIDTHS = [1, 6, 8, 40, 320, 1280, 3072, 4096, 4104] as const;

onEachTarget('groups_norm', (target) => {
  it('divides each group of a row by its root mean square, and multiplies it by its own weights', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(4), size(5), fc.constantFrom(...WIDTHS)),
        fills(...FINITE),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[rows, groups, width], kind, wanted, start]) => {
        const random = new Random(start);
        const sizes = { groups, width, eps: Math.fround(wanted) };
        const before = fill(kind, rows * groups * width, random);
        const weight = fill('normal', groups * width, random);
        const { x } = await target.launch(contract, { x: before.slice(), weight, ...sizes }, { rows });
        expectClose(contract, x!, { values: groupsNorm(before, weight, sizes) }, { width });
      },
    ));

  it('gives the bits of rms_norm', () =>
    target.check(fc.tuple(fc.constantFrom(...WIDTHS), seed), async ([width, start]) => {
      const random = new Random(start);
      const eps = Math.fround(1e-5);
      const [x, weight] = [fill('normal', width, random), fill('normal', width, random)];
      const grouped = await target.launch(contract, { x: x.slice(), weight, groups: 1, width, eps }, { rows: 1 });
      const { y } = await target.launch(rmsNorm, { x, weight, hidden: width, eps }, { rows: 1 });
      expect(grouped.x).toEqual(y);
    }));
});
