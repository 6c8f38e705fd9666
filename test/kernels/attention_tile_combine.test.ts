import fc from 'fast-check';
import { expect, it } from 'vitest';
import { stored } from '../../src/executor/device/tolerance.js';
import {
  ATTENTION_SPLIT,
  attentionCombineConvert,
  attentionCombineQuantize,
  attentionTile,
  attentionTileSplit,
  COMBINED_ENCODINGS,
  attentionTileCombineQ8 as contractOf,
  FUSED_HEAD_DIMS,
  headTiles,
  Q8_BLOCK,
} from '../../src/executor/kernels/index.js';
import { attentionTileCombine } from './reference/attention_tile_combine.js';
import { quantizeCache } from './reference/kv_q8.js';
import { expectClose } from './support/compare.js';
import { decode, type FloatArray } from './support/half.js';
import { lastAndInner, PagedStep, tileCases } from './support/paged-cases.js';
import { onEachTileTarget } from './support/targets.js';

onEachTileTarget('attention_tile_combine', (target) => {
  it('is attention_tile_split over a q8_0 cache and what combines its parts in one, to the bit', () =>
    target.check(
      fc.tuple(tileCases(target.simulated ? 280 : 600, FUSED_HEAD_DIMS), fc.constantFrom(...COMBINED_ENCODINGS)),
      async ([shape, form]) => {
        const { headDim, group } = shape;
        const step = new PagedStep(shape, lastAndInner);
        const { cache, qkv, rows, heads, scoring, sinks, placement, dimensions } = step;
        const bytes = quantizeCache(cache);
        const splits = Math.ceil(Math.max(...cache.lengths) / ATTENTION_SPLIT) + 1;
        const tokens = rows.length;
        const own = () => ({
          ...{
            ...placement,
            ...scoring,
            qkv,
            k_cache: bytes.k,
            v_cache: bytes.v,
            splits,
            head_tiles: headTiles(group),
          },
          parts: new Float32Array(tokens * heads * splits * (headDim + 2)).fill(Number.NaN),
        });
        const arrivals = new Int32Array(tokens * shape.kvHeads * headTiles(group));
        const together = await target.launch(contractOf(form, headDim), { ...own(), sinks, arrivals }, dimensions);
        const split = await target.launch(attentionTileSplit('q8_0', headDim), own(), dimensions);
        const combined = {
          ...{ parts: split.parts as Float32Array, row_position: placement.row_position },
          ...{ sinks, heads, head_dim: headDim, splits, window: scoring.window },
        };
        const blocks = (heads * headDim) / Q8_BLOCK;
        const apart =
          form === 'q8'
            ? await target.launch(attentionCombineQuantize, combined, { tokens, blocks })
            : await target.launch(attentionCombineConvert(form), combined, { tokens });
        expect(together.out).toEqual(apart.out);
        expect(together.parts).toEqual(split.parts);
        expect(together.arrivals).toEqual(arrivals);
        if (form !== 'f16') return;
        const { tolerance } = attentionTile('q8_0', headDim);
        const contract = { ...contractOf(form, headDim), tolerance: stored(form, tolerance) };
        const out = decode(form, together.out as FloatArray);
        rows.forEach(({ slot, position }, row) => {
          for (let head = 0; head < heads; head++) {
            const place = (row * heads + head) * headDim;
            const query = step.query(row, head);
            const range = step.range(position);
            const expected = attentionTileCombine(
              query,
              bytes,
              slot,
              step.kvHead(head),
              range,
              scoring,
              step.sink(head),
            );
            expectClose(contract, out.subarray(place, place + headDim), expected, {});
          }
        });
      },
      target.simulated ? 10 : Math.ceil(target.runs / 8),
    ));
});
