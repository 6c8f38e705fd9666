import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ropeKvAppend as contractOf } from '../../src/executor/kernels/index.js';
import { ropeTables } from './reference/rope.js';
import { ropeKvAppend } from './reference/rope_kv_append.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { PagedCache } from './support/paged.js';
import { onEachTarget } from './support/targets.js';
import { fill, fills, Random, seed } from './support/values.js';

const cases = fc.record({
  type: fc.constantFrom('f32' as const, 'f16' as const),
  adjacent: fc.boolean(),
  headDim: fc.constantFrom(8, 16, 40, 48, 64, 72, 120, 128, 160, 192, 256),
  rotaryShare: fc.constantFrom(1, 0.5, 0.25),
  kvHeads: fc.integer({ min: 1, max: 4 }),
  group: fc.integer({ min: 1, max: 4 }),
  lengths: fc.array(fc.oneof(fc.constantFrom(1, 15, 16, 17, 32, 33), fc.integer({ min: 1, max: 70 })), {
    minLength: 1,
    maxLength: 3,
  }),
  kind: fills('normal', 'wide', 'zeros', 'denormal', 'special'),
  start: seed,
});

onEachTarget('rope_kv_append', (target) => {
  it('turns q in place and k into the cache, and stores v as it is', () =>
    target.check(cases, async ({ type, adjacent, headDim, rotaryShare, kvHeads, group, lengths, kind, start }) => {
      const random = new Random(start);
      const heads = kvHeads * group;
      const rotary = headDim * rotaryShare;
      const tables = ropeTables(Math.max(...lengths), rotary);
      const cache = new PagedCache(lengths, kvHeads, headDim, type, random, (n) => new Float32Array(n).fill(0.5));
      // The last tokens of each sequence, at most three, in any order.
      const places = lengths.flatMap((length, slot) =>
        Array.from({ length: Math.min(3, length) }, (_, i) => ({ slot, position: length - 1 - i })),
      );
      const rows = random.permutation(places.length).map((i) => places[i]!);
      const width = (heads + 2 * kvHeads) * headDim;
      const qkv = fill(kind, rows.length * width, random);
      const contract = contractOf(type);
      const result = await target.launch(
        contract,
        {
          qkv,
          k_cache: cache.k,
          v_cache: cache.v,
          ...tables,
          row_position: Int32Array.from(rows, ({ position }) => position),
          row_slot: Int32Array.from(rows, ({ slot }) => slot),
          slots: cache.slots,
          slot_words: cache.slotWords,
          heads,
          kv_heads: kvHeads,
          head_dim: headDim,
          rotary,
          adjacent: adjacent ? 1 : 0,
        },
        {
          tokens: rows.length,
          blocks: cache.blocks,
          slot_count: lengths.length,
          max_position: Math.max(...lengths),
          half_rotary: rotary / 2,
        },
      );

      const kWritten = Float64Array.from(decode(type, cache.k));
      const kMagnitudes = kWritten.map(Math.abs);
      const vWritten = Float64Array.from(decode(type, cache.v));
      rows.forEach(({ slot, position }, row) => {
        const vector = qkv.subarray(row * width, (row + 1) * width);
        const expected = ropeKvAppend(vector, position, tables, { heads, kvHeads }, { headDim, rotary, adjacent });
        const actual = result.qkv!.subarray(row * width, (row + 1) * width);
        expectClose(contractOf('f32'), actual, expected.qkv, {});
        for (let head = 0; head < kvHeads; head++) {
          const [from, to] = [head * headDim, cache.offset(slot, position, head)];
          kWritten.set(expected.k.values.subarray(from, from + headDim), to);
          kMagnitudes.set(expected.k.magnitudes.subarray(from, from + headDim), to);
          vWritten.set(expected.v.subarray(from, from + headDim), to);
        }
      });
      const stored = (name: string) => decode(type, result[name] as FloatArray);
      expectClose(contract, stored('k_cache'), { values: kWritten, magnitudes: kMagnitudes }, {});
      expectClose(contract, stored('v_cache'), { values: vWritten }, {});
    }));

  it('leaves position 0 as it is', async () => {
    const random = new Random(3);
    const cache = new PagedCache([1], 1, 8, 'f32', random, (n) => new Float32Array(n));
    const qkv = fill('normal', 24, random);
    const result = await target.launch(
      contractOf('f32'),
      {
        qkv,
        k_cache: cache.k,
        v_cache: cache.v,
        ...ropeTables(1, 8),
        row_position: Int32Array.of(0),
        row_slot: Int32Array.of(0),
        slots: cache.slots,
        slot_words: cache.slotWords,
        heads: 1,
        kv_heads: 1,
        head_dim: 8,
        rotary: 8,
        adjacent: 1,
      },
      { tokens: 1, blocks: cache.blocks, slot_count: 1, max_position: 1, half_rotary: 4 },
    );
    expect(result.qkv).toEqual(qkv);
    const at = cache.offset(0, 0, 0);
    expect(result.k_cache!.slice(at, at + 8)).toEqual(qkv.slice(8, 16));
    expect(result.v_cache!.slice(at, at + 8)).toEqual(qkv.slice(16, 24));
  });
});
