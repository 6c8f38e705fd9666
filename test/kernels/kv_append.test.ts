import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  cacheElements,
  kvAppend as contractOf,
  KV_Q8_HEAD_DIMS,
  rope,
  ropeKvAppend,
} from '../../src/executor/kernels/index.js';
import { kvAppend } from './reference/kv_append.js';
import { quantizeKv, storeKv } from './reference/kv_q8.js';
import { ropeTables } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { decode, encode, type FloatArray } from './support/half.js';
import { PagedStep, pagedCases, type Row } from './support/paged-cases.js';
import { onEachTarget } from './support/targets.js';
import type { Random } from './support/values.js';

/** Up to four of each sequence's positions, in any order. */
const some = (lengths: readonly number[], random: Random): Row[] => {
  const rows = lengths.flatMap((length, slot) =>
    random
      .permutation(length)
      .slice(0, 4)
      .map((position) => ({ slot, position })),
  );
  return random.permutation(rows.length).map((i) => rows[i]!);
};

onEachTarget('kv_append', (target) => {
  it('stores k and v where the block table says', () =>
    target.check(pagedCases(70), async (shape) => {
      const { type, headDim, kvHeads } = shape;
      const step = new PagedStep(shape, some);
      const { cache, qkv, placement, dimensions } = step;
      const contract = contractOf(type);
      const result = await target.launch(
        contract,
        { ...placement, qkv, k_cache: cache.k, v_cache: cache.v, head_dim: headDim },
        dimensions,
      );
      const expected = { k: cache.k.slice(), v: cache.v.slice() };
      step.rows.forEach(({ slot, position }, row) => {
        const width = (step.heads + 2 * kvHeads) * headDim;
        const vectors = kvAppend(qkv.subarray(row * width, (row + 1) * width), step.heads, kvHeads, headDim);
        for (const name of ['k', 'v'] as const) {
          vectors[name].forEach((vector, head) => {
            expected[name].set(encode(type, vector), cache.offset(slot, position, head));
          });
        }
      });
      for (const name of ['k', 'v'] as const) {
        const values = Float64Array.from(decode(type, expected[name]));
        expectClose(contract, decode(type, result[`${name}_cache`] as FloatArray), { values }, {});
      }
    }));

  it('after rope gives the bits of rope_kv_append', () =>
    target.check(
      // Heads that rope_kv_append takes.
      fc.tuple(
        pagedCases(40).filter(({ headDim }) => headDim % 8 === 0),
        fc.boolean(),
        fc.constantFrom(1, 0.5),
      ),
      async ([shape, isAdjacent, rotaryShare]) => {
        const { type, headDim, kvHeads } = shape;
        const step = new PagedStep(shape, some);
        const { cache, qkv, heads, placement, dimensions } = step;
        const rotary = headDim * rotaryShare;
        const max_position = Math.max(...shape.lengths);
        const turn = { ...ropeTables(max_position, rotary), head_dim: headDim, rotary, adjacent: isAdjacent ? 1 : 0 };
        const angles = { max_position, half_rotary: rotary / 2 };
        const caches = { k_cache: cache.k, v_cache: cache.v };
        const fused = await target.launch(
          ropeKvAppend(type),
          { ...placement, ...turn, ...caches, qkv },
          { ...dimensions, ...angles },
        );
        const rotated = await target.launch(
          rope,
          { ...turn, x: qkv, row_position: placement.row_position, row_heads: heads + 2 * kvHeads },
          { ...dimensions, ...angles, heads: heads + kvHeads },
        );
        const stored = await target.launch(
          contractOf(type),
          { ...placement, ...caches, qkv: rotated.x as Float32Array, head_dim: headDim },
          dimensions,
        );
        expect(stored.k_cache).toEqual(fused.k_cache);
        expect(stored.v_cache).toEqual(fused.v_cache);
      },
      Math.min(target.runs, 100),
    ));

  if (target.has(contractOf('q8_0'))) {
    it('in q8_0 stores quants and scales as defined, and after rope what rope_kv_append stores', () =>
      target.check(
        fc.tuple(pagedCases(40), fc.constantFrom(...KV_Q8_HEAD_DIMS), fc.boolean()),
        async ([drawn, headDim, isAdjacent]) => {
          const shape = { ...drawn, headDim };
          const { kvHeads } = shape;
          const step = new PagedStep(shape, some);
          const { cache, qkv, heads, placement, dimensions } = step;
          const empty = new Uint8Array(cacheElements('q8_0', cache.blocks, kvHeads, headDim)).fill(99);
          const caches = { k_cache: empty, v_cache: empty };
          const stored = await target.launch(
            contractOf('q8_0'),
            { ...placement, ...caches, qkv, head_dim: headDim },
            dimensions,
          );
          const expected = { k: empty.slice(), v: empty.slice() };
          const width = (heads + 2 * kvHeads) * headDim;
          step.rows.forEach(({ slot, position }, row) => {
            const vectors = kvAppend(qkv.subarray(row * width, (row + 1) * width), heads, kvHeads, headDim);
            for (const name of ['k', 'v'] as const) {
              vectors[name].forEach((vector, head) => {
                storeKv(expected[name], cache, [slot, position, head], quantizeKv(vector));
              });
            }
          });
          expect(Buffer.from(stored.k_cache as Uint8Array).equals(expected.k)).toBe(true);
          expect(Buffer.from(stored.v_cache as Uint8Array).equals(expected.v)).toBe(true);

          const max_position = Math.max(...shape.lengths);
          const turn = {
            ...ropeTables(max_position, headDim),
            head_dim: headDim,
            rotary: headDim,
            adjacent: isAdjacent ? 1 : 0,
          };
          const angles = { max_position, half_rotary: headDim / 2 };
          const fused = await target.launch(
            ropeKvAppend('q8_0'),
            { ...placement, ...turn, ...caches, qkv },
            { ...dimensions, ...angles },
          );
          const rotated = await target.launch(
            rope,
            { ...turn, x: qkv, row_position: placement.row_position, row_heads: heads + 2 * kvHeads },
            { ...dimensions, ...angles, heads: heads + kvHeads },
          );
          const appended = await target.launch(
            contractOf('q8_0'),
            { ...placement, ...caches, qkv: rotated.x as Float32Array, head_dim: headDim },
            dimensions,
          );
          expect(fused.qkv).toEqual(rotated.x);
          expect(fused.k_cache).toEqual(appended.k_cache);
          expect(fused.v_cache).toEqual(appended.v_cache);
        },
        Math.min(target.runs, 100),
      ));
  }
});
