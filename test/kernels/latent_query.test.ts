import fc from 'fast-check';
import { expect, it } from 'vitest';
import { latentQuery as contract } from '../../src/executor/kernels/index.js';
import { latentQuery } from './reference/latent_query.js';
import { ropeTables } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed, size } from './support/values.js';

onEachTarget('latent_query', (target) => {
  it('parts each head of q, its plain elements heads first and the others rotated', () =>
    target.check(
      fc.record({
        rows: size(6),
        heads: size(5),
        parts: fc.constantFrom(
          { plain: 128, latent: 512, rotary: 64 },
          { plain: 32, latent: 64, rotary: 16 },
          { plain: 5, latent: 8, rotary: 2 },
        ),
        adjacent: fc.boolean(),
        kind: fills('normal', 'zeros', 'denormal'),
        start: seed,
      }),
      async ({ rows, heads, parts, adjacent, kind, start }) => {
        const random = new Random(start);
        const sizes = { heads, ...parts };
        const max_position = 50;
        const tables = ropeTables(max_position, sizes.rotary);
        const query = fill(kind, rows * heads * (sizes.plain + sizes.rotary), random);
        const absorbed = fill('normal', rows * (heads + 2) * (sizes.latent + sizes.rotary), random);
        const row_position = Int32Array.from({ length: rows }, () => random.below(max_position));
        const result = await target.launch(
          contract,
          {
            ...{ query, ...tables, row_position, tokens: Int32Array.of(rows), absorbed: absorbed.slice() },
            ...{ plain_parts: new Float32Array(heads * rows * sizes.plain), ...sizes, adjacent: Number(adjacent) },
          },
          { rows, max_position, half_rotary: sizes.rotary / 2 },
        );
        const expected = latentQuery(query, absorbed, tables, row_position, sizes, adjacent);
        expect(result.plain_parts).toEqual(expected.plainParts);
        expectClose(contract, result.absorbed!, expected.absorbed, {});
      },
    ));
});
