import fc from 'fast-check';
import { it } from 'vitest';
import { rmsNormF16, rmsNorm as rmsNormF32 } from '../../src/executor/kernels/index.js';
import { rmsNorm } from './reference/rms_norm.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

const CONTRACTS = [
  { type: 'f32', contract: rmsNormF32 },
  { type: 'f16', contract: rmsNormF16 },
] as const;

onEachTarget('rms_norm', (target) => {
  it('divides each row by its root mean square', () =>
    target.check(
      fc.tuple(
        fc.constantFrom(...CONTRACTS.filter(({ contract }) => target.has(contract))),
        fc.tuple(size(8), size(3000)),
        fills(...FINITE, 'special'),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([{ type, contract }, [rows, hidden], kind, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const x = encode(type, fill(kind, rows * hidden, random));
        const weight = fill('normal', hidden, random);
        const { y } = await target.launch<typeof contract.arguments>(contract, { x, weight, hidden, eps }, { rows });
        const values = rmsNorm(decode(type, x), weight, hidden, eps);
        expectClose(contract, decode(type, y as FloatArray), { values }, { hidden });
      },
    ));
});
