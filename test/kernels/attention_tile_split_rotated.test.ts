import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  ATTENTION_SPLIT,
  attentionTileSplit,
  attentionTileSplitNormed,
  attentionTileSplitRotated,
  FUSED_HEAD_DIMS,
  headTiles,
  normRopeKvAppend,
  ropeKvAppend,
} from '../../src/executor/kernels/index.js';
import { attentionTileSplitRotated as reference } from './reference/attention_tile_split_rotated.js';
import { ropeTables } from './reference/rope.js';
import { PagedStep, tileCases } from './support/paged-cases.js';
import { expectParts, UNTOUCHED } from './support/split-parts.js';
import { onEachTileTarget } from './support/targets.js';
import { fill, Random } from './support/values.js';

onEachTileTarget('attention_tile_split_rotated', (target) => {
  it('is rope_kv_append or norm_rope_kv_append and attention_tile_split in one, to the bit', () =>
    target.check(
      fc.tuple(
        tileCases(target.simulated ? 280 : 300, FUSED_HEAD_DIMS),
        fc.constantFrom(1, 0.5, 0.25),
        fc.boolean(),
        fc.boolean(),
      ),
      async ([shape, rotaryShare, isAdjacent, isNormed]) => {
        const { headDim, group } = shape;
        const step = new PagedStep(shape, ([length = 1]) => [{ slot: 0, position: length - 1 }]);
        const { cache, qkv, scoring, heads, placement, dimensions } = step;
        const rotary = headDim * rotaryShare;
        const angles = { ...ropeTables(Math.max(...shape.lengths), rotary), rotary, adjacent: Number(isAdjacent) };
        const turning = { ...dimensions, max_position: Math.max(...shape.lengths), half_rotary: rotary / 2 };
        const splits = Math.ceil(Math.max(...shape.lengths) / ATTENTION_SPLIT) + 1;
        const parts = () => new Float32Array(heads * splits * (headDim + 2)).fill(UNTOUCHED);
        const attended = { ...placement, ...scoring, splits, head_tiles: headTiles(group) };
        const random = new Random(shape.start);
        const [query_weight, key_weight] = [fill('normal', headDim, random), fill('normal', headDim, random)];
        const norms = { query_weight, key_weight, eps: Math.fround(1e-5) };
        const caches = () => ({ k_cache: cache.k.slice(), v_cache: cache.v.slice() });
        const own = { ...attended, ...angles, ...caches(), qkv, parts: parts() };
        const together = isNormed
          ? await target.launch(attentionTileSplitNormed(headDim), { ...own, ...norms }, turning)
          : await target.launch(attentionTileSplitRotated(headDim), own, turning);
        const row = { ...placement, ...angles, ...caches(), head_dim: headDim, qkv: qkv.slice() };
        const appended = isNormed
          ? await target.launch(normRopeKvAppend('f16'), { ...row, ...norms }, turning)
          : await target.launch(ropeKvAppend('f16'), row, turning);
        const rotated = appended.qkv as Float32Array;
        const [k, v] = [appended.k_cache as typeof cache.k, appended.v_cache as typeof cache.v];
        const apart = await target.launch(
          attentionTileSplit('f16', headDim),
          { ...attended, qkv: rotated, k_cache: k, v_cache: v, parts: parts() },
          dimensions,
        );
        expect(together.k_cache).toEqual(k);
        expect(together.v_cache).toEqual(v);
        expect(together.parts).toEqual(apart.parts);
        cache.k.set(k as never);
        cache.v.set(v as never);
        expectParts(
          attentionTileSplit('f16', headDim),
          together.parts as Float32Array,
          step,
          splits,
          (_row, head, range) => {
            const query = rotated.subarray(head * headDim, (head + 1) * headDim);
            return reference(query, cache, 0, step.kvHead(head), range, scoring);
          },
        );
      },
      target.simulated ? target.runs : Math.ceil(target.runs / 8),
    ));
});
