import fc from 'fast-check';
import { it } from 'vitest';
import { rope as contract } from '../../src/executor/kernels/index.js';
import { ropeTables, rotate } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('rope', (target) => {
  it('turns the first heads of each row by its position, in place', () =>
    target.check(
      fc.record({
        tokens: size(6),
        heads: size(5),
        others: fc.nat(3),
        headDim: fc.constantFrom(2, 8, 16, 48, 64, 100, 128, 256),
        rotaryShare: fc.constantFrom(1, 0.5),
        adjacent: fc.boolean(),
        kind: fills('normal', 'wide', 'zeros', 'denormal', 'special'),
        start: seed,
      }),
      async ({ tokens, heads, others, headDim, rotaryShare, adjacent, kind, start }) => {
        const random = new Random(start);
        const rotary = Math.max(2, headDim * rotaryShare);
        const max_position = 40;
        const tables = ropeTables(max_position, rotary);
        const row_heads = heads + others;
        const x = fill(kind, tokens * row_heads * headDim, random);
        const row_position = Int32Array.from({ length: tokens }, () => random.below(max_position));
        const result = await target.launch(
          contract,
          { x, ...tables, row_position, row_heads, head_dim: headDim, rotary, adjacent: adjacent ? 1 : 0 },
          { tokens, heads, max_position, half_rotary: rotary / 2 },
        );
        const values = Float64Array.from(x);
        const magnitudes = values.map(Math.abs);
        for (let row = 0; row < tokens; row++) {
          for (let head = 0; head < heads; head++) {
            const at = (row * row_heads + head) * headDim;
            const vector = x.subarray(at, at + headDim);
            const rotated = rotate(vector, tables.cosine, tables.sine, row_position[row]!, {
              headDim,
              rotary,
              adjacent,
            });
            values.set(rotated.values, at);
            magnitudes.set(rotated.magnitudes, at);
          }
        }
        expectClose(contract, result.x!, { values, magnitudes }, {});
      },
    ));

  it.each([0, 1, 4095, 131_071])('is right at position %i', async (position) => {
    const [headDim, rotary] = [16, 16];
    const tables = ropeTables(position + 1, rotary);
    const x = fill('normal', headDim, new Random(position));
    const result = await target.launch(
      contract,
      { x, ...tables, row_position: Int32Array.of(position), row_heads: 1, head_dim: headDim, rotary, adjacent: 0 },
      { tokens: 1, heads: 1, max_position: position + 1, half_rotary: rotary / 2 },
    );
    const rotation = { headDim, rotary, adjacent: false };
    expectClose(contract, result.x!, rotate(x, tables.cosine, tables.sine, position, rotation), {});
  });
});
