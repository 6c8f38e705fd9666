import {
  ATTENTION_SPLIT,
  attentionCombine,
  attentionTileSplit,
  headTiles,
} from '../../../src/executor/kernels/index.js';
import type { PagedStep } from './paged-cases.js';
import type { Target } from './targets.js';

/** Attention of each row by itself, from its splits. */
export async function runSplits(target: Target, step: PagedStep): Promise<Float32Array> {
  const { cache, qkv, rows, scoring, sinks, placement, dimensions, heads } = step;
  const splits = Math.ceil(Math.max(...cache.lengths) / ATTENTION_SPLIT);
  const { parts } = await target.launch(
    attentionTileSplit('f16', cache.headDim),
    {
      ...{ ...placement, ...scoring, qkv, k_cache: cache.k, v_cache: cache.v, splits },
      head_tiles: headTiles(step.shape.group),
      parts: new Float32Array(rows.length * heads * splits * (cache.headDim + 2)),
    },
    dimensions,
  );
  const { out } = await target.launch(
    attentionCombine,
    {
      ...{ parts: parts as Float32Array, row_position: placement.row_position },
      ...{ sinks, heads, head_dim: cache.headDim, splits, window: scoring.window },
    },
    dimensions,
  );
  return out as Float32Array;
}
