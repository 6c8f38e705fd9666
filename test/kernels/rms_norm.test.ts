import fc from 'fast-check';
import { it } from 'vitest';
import { rmsNorm as contract } from '../../src/executor/kernels/contracts/index.js';
import { rmsNorm } from './reference/rms_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('rms_norm', (target) => {
  it('divides each row by its root mean square', () =>
    target.check(
      fc.tuple(size(8), size(3000), fills(...FINITE, 'special'), fc.constantFrom(1e-5, 1e-6, 1), seed),
      async ([rows, hidden, kind, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const x = fill(kind, rows * hidden, random);
        const weight = fill('normal', hidden, random);
        const { y } = await target.launch(contract, { x, weight, hidden, eps }, { rows });
        expectClose(contract, y!, { values: rmsNorm(x, weight, hidden, eps) }, { hidden });
      },
    ));
});
