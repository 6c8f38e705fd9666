import fc from 'fast-check';
import { expect, it } from 'vitest';
import { rmsNormConvert as contractOf, rmsNorm as rmsNormF32 } from '../../src/executor/kernels/index.js';
import { rmsNormConvert } from './reference/rms_norm_convert.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('rms_norm_convert', (target) => {
  it.each(['f16', 'bf16'] as const)('stores what rms_norm gives as %s', (type) =>
    target.check(
      fc.tuple(size(8), size(3000), fills('normal', 'zeros', 'ones', 'denormal', 'special'), seed),
      async ([rows, hidden, kind, start]) => {
        const random = new Random(start);
        const eps = Math.fround(1e-5);
        const x = fill(kind, rows * hidden, random);
        const weight = fill('normal', hidden, random);
        const contract = contractOf(type);
        const { y } = await target.launch(contract, { x, weight, hidden, eps }, { rows });
        const values = rmsNormConvert(x, weight, hidden, eps);
        expectClose(contract, decode(type, y as FloatArray), { values }, { hidden });

        const unfused = await target.launch(rmsNormF32, { x, weight, hidden, eps }, { rows });
        const stored = encode(type, unfused.y as Float32Array) as FloatArray;
        expect(decode(type, y as FloatArray)).toEqual(decode(type, stored));
      },
    ),
  );
});
