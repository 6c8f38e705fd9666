import fc from 'fast-check';
import { expect, it } from 'vitest';
import { swigluConvert as contractOf, swiglu as swigluF32 } from '../../src/executor/kernels/index.js';
import { swigluConvert } from './reference/swiglu_convert.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('swiglu_convert', (target) => {
  it.each(['f16', 'bf16'] as const)('stores what swiglu gives as %s', (type) =>
    target.check(
      fc.tuple(size(8), size(2100), fills('normal', 'zeros', 'ones', 'denormal', 'special'), seed),
      async ([rows, ffn, kind, start]) => {
        const gate_up = fill(kind, rows * 2 * ffn, new Random(start));
        const contract = contractOf(type);
        const { y } = await target.launch(contract, { gate_up, ffn }, { rows });
        expectClose(contract, decode(type, y as FloatArray), { values: swigluConvert(gate_up, ffn) }, { ffn });

        const unfused = await target.launch(swigluF32, { gate_up, ffn }, { rows });
        const stored = encode(type, unfused.y as Float32Array) as FloatArray;
        expect(decode(type, y as FloatArray)).toEqual(decode(type, stored));
      },
    ),
  );
});
