import fc from 'fast-check';
import { expect, it } from 'vitest';
import { quantizeQ8 as contract, Q8_BLOCK } from '../../src/executor/kernels/index.js';
import { packRow, quantizeQ8 } from './reference/quantize_q8.js';
import { onEachTarget } from './support/targets.js';
import { type Fill, fill, fills, Random, seed } from './support/values.js';

/** Blocks of a row, of which one block of threads takes 64. */
const rowBlocks = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(64, 65, 130));

onEachTarget('quantize_q8', (target) => {
  it('gives the quants, scales and sums of its definition, bit for bit', () =>
    target.check(
      fc.tuple(
        fc.record({ rows: fc.integer({ min: 1, max: 5 }), blocks: rowBlocks }),
        fills('normal', 'wide', 'zeros', 'ones', 'denormal'),
        seed,
      ),
      async ([{ rows, blocks }, kind, start]) => {
        const size = blocks * Q8_BLOCK;
        const x = fill(kind, rows * size, new Random(start));
        const { y } = await target.launch(contract, { x, in: size }, { rows, blocks });
        const expected = Array.from({ length: rows }, (_, r) =>
          packRow(quantizeQ8(x.subarray(r * size, (r + 1) * size))),
        );
        expect(Buffer.from(y as Uint8Array).equals(Buffer.concat(expected))).toBe(true);
      },
    ));

  it.each<[Fill, number]>([
    ['special', Number.NaN],
    ['infinite', Number.POSITIVE_INFINITY],
  ])('keeps %s values in the scale of their block', async (_kind, value) => {
    const x = new Float32Array(2 * Q8_BLOCK).fill(1);
    x[40] = value;
    const { y } = await target.launch(contract, { x, in: x.length }, { rows: 1, blocks: 2 });
    const scales = new Float32Array((y as Uint8Array).slice(x.length, x.length + 8).buffer);
    expect([...scales]).toEqual([Math.fround(1 / 127), value]);
  });
});
