import { aligned, defineKernel, i32, type KernelContract, output } from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import {
  type AttentionCounts,
  type AttentionShape,
  attentionTileSplit,
  headTiles,
  TILE_TOLERANCE,
} from './attention.js';
import { attentionCombine } from './attention-combine.js';
import type { ContextParts } from './attention-splits.js';
import type { Launch, ValuesOf } from './launch-plan.js';
import { LARGE_HEAD_DIMS, qkvOf, readCache, rowArguments, scoringArguments, sinksOf } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/** Attention of each row with one of {@link LARGE_HEAD_DIMS}, with the bits of {@link attentionTileSplit} and {@link attentionCombine}. */
export const attentionLarge = (headDim: number) =>
  defineKernel({
    name: `attention_large_f16_d${headDim}`,
    source: 'attention_large.hip',
    on: 'gpu',
    needsBlock: true,
    summary: 'causal attention of each row over all of its context on matrix units',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      readCache('k_cache', 'f16', `${headDim}`, 16),
      readCache('v_cache', 'f16', `${headDim}`, 16),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      ...rowArguments,
      sinksOf,
      i32('heads'),
      i32('kv_heads'),
      i32('head_tiles'),
      ...scoringArguments,
    ],
    grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: TILE_TOLERANCE,
  });

/**
 * Attention of a step's rows with one of {@link LARGE_HEAD_DIMS}, over an f16 cache: few rows are split over many blocks, of many each has a block for
 * sixteen of its heads.
 */
export function launchAttentionLarge(
  launch: Launch,
  { heads, kvHeads, headDim }: AttentionShape,
  { rows, splits, buffer: parts }: ContextParts & { readonly buffer: DeviceBuffer },
  counts: Omit<AttentionCounts, 'tiles'>,
  { out, sinks, ...values }: Omit<ValuesOf<ReturnType<typeof attentionLarge>>, 'head_tiles'>,
  dims: { readonly slot_count: number; readonly blocks: number },
): void {
  const head_tiles = headTiles(heads / kvHeads);
  const tokens = { ...counts.splitRows, max: rows };
  const { row_position, window } = values;
  launch(
    attentionTileSplit('f16', headDim),
    { ...values, parts, head_tiles, splits },
    { ...dims, tokens, splits: counts.splits },
  );
  launch(
    attentionCombine,
    { parts, sinks, out, row_position, heads, head_dim: headDim, splits, window },
    { tokens, splits: counts.splits },
  );
  const unsplit = { count: counts.splitRows, atMost: 0 };
  launch(attentionLarge(headDim), { ...values, out, sinks, head_tiles }, { ...dims, tokens: counts.tokens }, unsplit);
}

export const attentionLargeContracts: readonly KernelContract[] = LARGE_HEAD_DIMS.flatMap((headDim) => [
  attentionTileSplit('f16', headDim),
  attentionLarge(headDim),
]);
