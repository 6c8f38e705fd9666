import fc from 'fast-check';
import { expect, it } from 'vitest';
import { attentionPaged as contractOf, HEAD_DIMS } from '../../src/executor/kernels/contracts/index.js';
import { attentionPaged } from './reference/attention_paged.js';
import { expectClose } from './support/compare.js';
import { PagedCache } from './support/paged.js';
import { onEachTarget, type Target } from './support/targets.js';
import { type Fill, fill, fills, Random, seed } from './support/values.js';

/** Context lengths around the borders of KV blocks (16) and splits (256). */
const lengths = (max: number) =>
  fc.oneof(
    fc.constantFrom(...[1, 2, 15, 16, 17, 31, 33, 128, 255, 256, 257, 272, 511, 512, 513].filter((n) => n <= max)),
    fc.integer({ min: 1, max }),
  );

const cases = (target: Target) =>
  fc.record({
    type: fc.constantFrom('f32' as const, 'f16' as const),
    headDim: fc.constantFrom(...HEAD_DIMS),
    kvHeads: fc.integer({ min: 1, max: 3 }),
    group: fc.integer({ min: 1, max: 4 }),
    lengths: fc.array(lengths(target.simulated ? 300 : 600), { minLength: 1, maxLength: 3 }),
    kind: fills('normal', 'zeros', 'ones', 'denormal'),
    start: seed,
  });

async function run(target: Target, cache: PagedCache, group: number, qkv: Float32Array, rows: Row[], scale: number) {
  const { out } = await target.launch(
    contractOf(cache.type, cache.headDim),
    {
      qkv,
      k_cache: cache.k,
      v_cache: cache.v,
      row_position: Int32Array.from(rows, ({ position }) => position),
      row_slot: Int32Array.from(rows, ({ slot }) => slot),
      slots: cache.slots,
      slot_words: cache.slotWords,
      heads: cache.kvHeads * group,
      kv_heads: cache.kvHeads,
      scale,
    },
    { tokens: rows.length, blocks: cache.blocks, slot_count: cache.lengths.length },
  );
  return out as Float32Array;
}

interface Row {
  readonly slot: number;
  readonly position: number;
}

const cacheOf = (
  sizes: number[],
  kvHeads: number,
  headDim: number,
  type: 'f32' | 'f16',
  kind: Fill,
  random: Random,
): PagedCache => new PagedCache(sizes, kvHeads, headDim, type, random, (n) => fill(kind, n, random));

onEachTarget('attention_paged', (target) => {
  it('attends to the positions up to the row’s own, through the block table, a KV head a group of heads', () =>
    target.check(cases(target), async ({ type, headDim, kvHeads, group, lengths: sizes, kind, start }) => {
      const random = new Random(start);
      const cache = cacheOf(sizes, kvHeads, headDim, type, kind, random);
      // The last position of each sequence and one within it, whose future must not be seen.
      const rows = sizes.flatMap((length, slot) => [
        { slot, position: length - 1 },
        { slot, position: random.below(length) },
      ]);
      const heads = kvHeads * group;
      const qkv = fill(kind, rows.length * (heads + 2 * kvHeads) * headDim, random);
      const scale = Math.fround(1 / Math.sqrt(headDim));
      const out = await run(target, cache, group, qkv, rows, scale);
      expectClose(contractOf(type, headDim), out, attentionPaged(qkv, cache, rows, heads, scale), {});
    }));

  it('survives scores far apart', async () => {
    const random = new Random(11);
    const cache = cacheOf([40], 1, 16, 'f32', 'normal', random);
    const qkv = fill('normal', 3 * 16, random).map((q) => q * 1000);
    const rows = [{ slot: 0, position: 39 }];
    const out = await run(target, cache, 1, qkv, rows, 1);
    expectClose(contractOf('f32', 16), out, attentionPaged(qkv, cache, rows, 1, 1), {});
  });

  it('gives a row the same bits alone and among others', async () => {
    const random = new Random(5);
    const cache = cacheOf([300, 20], 2, 32, 'f32', 'normal', random);
    const rows = [299, 256, 255, 16, 0].map((position) => ({ slot: 0, position }));
    const width = 8 * 32;
    const qkv = fill('normal', (rows.length + 1) * width, random);
    const together = await run(target, cache, 2, qkv, [...rows, { slot: 1, position: 19 }], 0.2);
    for (const [i, row] of rows.entries()) {
      const alone = await run(target, cache, 2, qkv.slice(i * width, (i + 1) * width), [row], 0.2);
      expect(alone).toEqual(together.slice(i * 4 * 32, (i + 1) * 4 * 32));
    }
  });
});
