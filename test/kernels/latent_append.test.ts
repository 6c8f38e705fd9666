import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cacheElements, latentAppend as contractOf } from '../../src/executor/kernels/index.js';
import { quantizeKv, storeKv } from './reference/kv_q8.js';
import { latentAppend } from './reference/latent_append.js';
import { ropeTables } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { PagedStep, pagedCases, someOfEach } from './support/paged-cases.js';
import { onEachTarget } from './support/targets.js';
import { fill, Random } from './support/values.js';

const shapes = fc.record({
  drawn: pagedCases(70),
  // Of quantized caches all are whole groups.
  sizes: fc.constantFrom([512, 64], [64, 32], [32, 64], [48, 16]),
  adjacent: fc.boolean(),
  wanted: fc.constantFrom(1e-5, 1e-6, 1),
});

onEachTarget('latent_append', (target) => {
  it.each(['f32', 'f16'] as const)('%s: norms the latent, rotates what follows, and stores both', (type) =>
    target.check(shapes, async ({ drawn, sizes, adjacent, wanted }) => {
      const [latent, rotary] = sizes as [number, number];
      const headDim = latent + rotary;
      const step = new PagedStep({ ...drawn, type, headDim, kvHeads: 1, group: 1 }, someOfEach);
      const random = new Random(drawn.start);
      const x = fill(drawn.kind, step.rows.length * headDim, random);
      const weight = fill('normal', latent, random);
      const max_position = Math.max(...drawn.lengths);
      const tables = ropeTables(max_position, rotary);
      const eps = Math.fround(wanted);
      const { heads: _heads, kv_heads, ...placement } = step.placement;
      const contract = contractOf(type);
      const result = await target.launch(
        contract,
        {
          ...{ ...placement, ...tables, x: x.slice(), weight, cache: step.cache.k },
          ...{ latent, rotary, adjacent: Number(adjacent), eps },
        },
        { ...step.dimensions, kv_heads, max_position, half_rotary: rotary / 2 },
      );
      const stored = decode(type, result.cache as FloatArray);
      const before = decode(type, step.cache.k);
      const values = Float64Array.from(before);
      const magnitudes = values.map(Math.abs);
      step.rows.forEach(({ slot, position }, row) => {
        const own = x.subarray(row * headDim, (row + 1) * headDim);
        const key = latentAppend(own, weight, tables, position, { latent, adjacent, eps });
        values.set(key.values, step.cache.offset(slot, position, 0));
        magnitudes.set(key.magnitudes, step.cache.offset(slot, position, 0));
      });
      expectClose(contract, stored, { values, magnitudes }, { latent });
    }),
  );

  it('q8_0: stores the quants of what it leaves in the row', () =>
    target.check(
      fc.tuple(shapes, fc.constantFrom([512, 64], [64, 32])),
      async ([{ drawn, adjacent, wanted }, sizes]) => {
        const [latent, rotary] = sizes as [number, number];
        const headDim = latent + rotary;
        const step = new PagedStep({ ...drawn, type: 'f32', headDim, kvHeads: 1, group: 1 }, someOfEach);
        const random = new Random(drawn.start);
        const x = fill(drawn.kind, step.rows.length * headDim, random);
        const weight = fill('normal', latent, random);
        const max_position = Math.max(...drawn.lengths);
        const tables = ropeTables(max_position, rotary);
        const cache = new Uint8Array(cacheElements('q8_0', step.cache.blocks, 1, headDim)).fill(99);
        const { heads: _heads, kv_heads, ...placement } = step.placement;
        const contract = contractOf('q8_0');
        const eps = Math.fround(wanted);
        const result = await target.launch(
          contract,
          {
            ...{ ...placement, ...tables, x: x.slice(), weight, cache: cache.slice() },
            ...{ latent, rotary, adjacent: Number(adjacent), eps },
          },
          { ...step.dimensions, kv_heads, max_position, half_rotary: rotary / 2 },
        );
        step.rows.forEach(({ slot, position }, row) => {
          const own = x.subarray(row * headDim, (row + 1) * headDim);
          const left = (result.x as Float32Array).slice(row * headDim, (row + 1) * headDim);
          expectClose(contract, left, latentAppend(own, weight, tables, position, { latent, adjacent, eps }), {
            latent,
          });
          storeKv(cache, step.cache, [slot, position, 0], quantizeKv(left));
        });
        expect(Buffer.from(result.cache as Uint8Array).equals(cache)).toBe(true);
      },
    ));
});
