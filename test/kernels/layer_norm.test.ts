import fc from 'fast-check';
import { expect, it } from 'vitest';
import { layerNorm as contract } from '../../src/executor/kernels/index.js';
import { layerNorm } from './reference/layer_norm.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { FINITE, fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('layer_norm', (target) => {
  it('subtracts each row’s mean, divides by its deviation and adds the bias', () =>
    target.check(
      fc.tuple(
        fc.tuple(size(8), size(3000)),
        fills(...FINITE),
        fc.constantFrom(0, 1, 100),
        fc.constantFrom(1e-5, 1e-6, 1),
        seed,
      ),
      async ([[rows, hidden], kind, mean, wanted, start]) => {
        const random = new Random(start);
        const eps = Math.fround(wanted);
        const x = fill(kind, rows * hidden, random).map((value) => value + mean);
        const [weight, bias] = [fill('normal', hidden, random), fill('normal', hidden, random)];
        const input = { x, weight, bias, hidden, eps };
        const { y } = await target.launch<typeof contract.arguments>(contract, input, { rows });
        expectClose(contract, y as Float32Array, layerNorm(x, weight, bias, hidden, eps), { hidden });
      },
    ));

  it('gives a row the same bits alone and among others', async () => {
    const [random, hidden, rows] = [new Random(3), 700, 5];
    const [x, weight] = [fill('normal', rows * hidden, random), fill('normal', hidden, random)];
    const bias = fill('normal', hidden, random);
    const run = async (rowsOfX: Float32Array, count: number) =>
      (await target.launch(contract, { x: rowsOfX, weight, bias, hidden, eps: 1e-5 }, { rows: count }))
        .y as Float32Array;
    const together = await run(x, rows);
    for (let row = 0; row < rows; row++) {
      const part = [row * hidden, (row + 1) * hidden] as const;
      expect(await run(x.slice(...part), 1)).toEqual(together.slice(...part));
    }
  });
});
