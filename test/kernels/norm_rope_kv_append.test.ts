import fc from 'fast-check';
import { expect, it } from 'vitest';
import { headNorm, normRopeKvAppend, ropeKvAppend } from '../../src/executor/kernels/index.js';
import { normRopeKvAppend as reference } from './reference/norm_rope_kv_append.js';
import { ropeTables } from './reference/rope.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { PagedCache } from './support/paged.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed } from './support/values.js';

const cases = fc.record({
  type: fc.constantFrom('f32' as const, 'f16' as const),
  adjacent: fc.boolean(),
  headDim: fc.constantFrom(8, 32, 64, 96, 128, 160, 192, 256),
  rotates: fc.constantFrom('all' as const, 'half' as const, 'nothing' as const),
  kvHeads: fc.integer({ min: 1, max: 4 }),
  group: fc.integer({ min: 1, max: 6 }),
  lengths: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 }),
  kind: fills('normal', 'wide', 'zeros', 'denormal'),
  eps: fc.constantFrom(1e-6, 1e-5),
  start: seed,
});

onEachTarget('norm_rope_kv_append', (target) => {
  it('gives the bits of head_norm and rope_kv_append', () =>
    target.check(cases, async ({ type, adjacent, headDim, rotates, kvHeads, group, lengths, kind, eps, start }) => {
      const random = new Random(start);
      const heads = kvHeads * group;
      const share = { all: 1, half: 0.5, nothing: 0 }[rotates];
      const rotary = Math.floor((headDim * share) / 8) * 8;
      const cache = new PagedCache(lengths, kvHeads, headDim, type, random, (n) => new Float32Array(n).fill(0.5));
      const rows = lengths.map((length, slot) => ({ slot, position: length - 1 }));
      const qkv = fill(kind, rows.length * (heads + 2 * kvHeads) * headDim, random);
      const norms = {
        query_weight: fill('normal', headDim, random),
        key_weight: fill('normal', headDim, random),
        eps: Math.fround(eps),
      };
      const sizes = { heads, kv_heads: kvHeads, head_dim: headDim };
      const place = {
        k_cache: cache.k,
        v_cache: cache.v,
        ...ropeTables(Math.max(...lengths), rotary),
        row_position: Int32Array.from(rows, ({ position }) => position),
        row_slot: Int32Array.from(rows, ({ slot }) => slot),
        slots: cache.slots,
        slot_words: cache.slotWords,
        rotary,
        adjacent: adjacent ? 1 : 0,
      };
      const dims = {
        tokens: rows.length,
        blocks: cache.blocks,
        slot_count: lengths.length,
        max_position: Math.max(...lengths),
        half_rotary: rotary / 2,
      };
      const contract = normRopeKvAppend(type);
      const fused = await target.launch(contract, { qkv, ...norms, ...place, ...sizes }, dims);
      const normed = await target.launch(headNorm, { qkv, ...norms, ...sizes }, { tokens: rows.length });
      const plain = await target.launch(
        ropeKvAppend(type),
        { qkv: normed.qkv as Float32Array, ...place, ...sizes },
        dims,
      );
      expect(fused.k_cache).toEqual(plain.k_cache);
      expect(fused.v_cache).toEqual(plain.v_cache);
      // Only the queries of qkv are read again.
      const queries = (from: unknown) =>
        rows.map((_, row) => {
          const at = row * (heads + 2 * kvHeads) * headDim;
          return (from as Float32Array).slice(at, at + heads * headDim);
        });
      expect(queries(fused.qkv)).toEqual(queries(plain.qkv));

      const tables = { cosine: place.cosine, sine: place.sine };
      const values = Float64Array.from(decode(type, cache.k));
      const magnitudes = values.map(Math.abs);
      rows.forEach(({ slot, position }, row) => {
        const vector = qkv.subarray(row * (heads + 2 * kvHeads) * headDim, (row + 1) * (heads + 2 * kvHeads) * headDim);
        const weights = { query: norms.query_weight, key: norms.key_weight, eps: norms.eps };
        const { k } = reference(vector, weights, position, tables, { heads, kvHeads }, { headDim, rotary, adjacent });
        for (let head = 0; head < kvHeads; head++) {
          const [from, to] = [head * headDim, cache.offset(slot, position, head)];
          values.set(k.values.subarray(from, from + headDim), to);
          magnitudes.set(k.magnitudes.subarray(from, from + headDim), to);
        }
      });
      const stored = decode(type, fused.k_cache as FloatArray);
      expectClose(contract, stored, { values, magnitudes }, { head_dim: headDim });
    }));
});
