import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { type AttentionShape, attentionPaged } from './attention.js';
import { attentionSinks } from './attention-sinks.js';
import type { Launch, LaunchCondition, StepCount, ValuesOf } from './launch-plan.js';
import {
  type KvCacheType,
  qkvOf,
  ROWS_HEAD_DIMS,
  ROWS_Q8_HEAD_DIMS,
  readCache,
  rowArguments,
  scoringArguments,
  sinksOf,
} from './paged-cache.js';

/** Caches whose blocks rows share; the other one needs no conversion. */
export type RowsCacheType = Exclude<KvCacheType, 'f32'>;
const HEAD_DIMS_BY_TYPE: Readonly<Record<RowsCacheType, readonly number[]>> = {
  f16: ROWS_HEAD_DIMS,
  q8_0: ROWS_Q8_HEAD_DIMS,
};

/** Queries of a tile that is worth the conversion of keys and values. */
const ROWS_QUERIES = 32;

/**
 * {@link attentionPaged} on the CPU, of tiles that share keys and values, with the same bits. Tiles: `[tiles, 2]`, first row and
 * number of rows, which are consecutive positions of one slot. `sinks`: as {@link attentionSinks} has them, or NO_SINK.
 */
export const attentionRows = (type: RowsCacheType, headDim: number) => {
  const { multiples, order, tolerance } = attentionPaged(type, headDim);
  return defineKernel({
    name: `attention_rows_${type}_d${headDim}`,
    source: 'attention_rows.hip',
    on: 'host',
    isCpuOnly: true,
    summary: 'attention_paged of tiles of consecutive rows of one slot, with the same bits',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('tiles', 'i32', 'tiles', '2'),
      ...rowArguments,
      sinksOf,
      i32('heads'),
      i32('kv_heads'),
      ...scoringArguments,
    ],
    grid: [{ of: 'kv_heads' }, { of: 'tiles' }],
    multiples: multiples!,
    order: order!,
    tolerance,
  });
};

/** True if {@link attentionRows} is built for heads and cache. */
export function hasAttentionRows(headDim: number, cacheType: KvCacheType): cacheType is RowsCacheType {
  return cacheType !== 'f32' && HEAD_DIMS_BY_TYPE[cacheType].includes(headDim);
}

/** Rows of a tile of {@link attentionRows}. */
export function hostTileRows({ heads, kvHeads }: Pick<AttentionShape, 'heads' | 'kvHeads'>): number {
  return Math.max(1, Math.floor(ROWS_QUERIES / (heads / kvHeads)));
}

/** Conditions of a launch by tiles and KV heads, where these occupy all threads, and of one by rows and heads instead; undefined: never. */
export function tilesOrRows(tiles: StepCount, threads: number, kvHeads: number) {
  const enough = Math.ceil(threads / kvHeads);
  const rows: LaunchCondition | undefined = enough > 1 ? { count: tiles, atMost: enough - 1 } : undefined;
  const byTiles: LaunchCondition = { count: tiles, atLeast: enough };
  return { rows, byTiles };
}

/**
 * Attention of a step's rows on the CPU: by tiles, where they occupy all threads, otherwise by row and head. A row's bits are the
 * same in either form.
 *
 * @param hasSinks true if `values.sinks` are scores of the model
 */
export function launchAttentionRows(
  { launch, threads }: { readonly launch: Launch; readonly threads: number },
  { headDim, kvHeads, cacheType }: Pick<AttentionShape, 'headDim' | 'kvHeads'> & { readonly cacheType: RowsCacheType },
  hasSinks: boolean,
  counts: { readonly tokens: StepCount; readonly tiles: StepCount },
  { tiles, ...values }: ValuesOf<ReturnType<typeof attentionRows>>,
  dims: { readonly slot_count: number; readonly blocks: number },
): void {
  const { rows, byTiles } = tilesOrRows(counts.tiles, threads, kvHeads);
  const own = { ...dims, tokens: counts.tokens };
  const { sinks, softcap, ...both } = values;
  if (rows !== undefined && hasSinks) launch(attentionSinks(cacheType, headDim), { ...both, sinks }, own, rows);
  else if (rows !== undefined) launch(attentionPaged(cacheType, headDim), { ...both, softcap }, own, rows);
  launch(attentionRows(cacheType, headDim), { ...values, tiles }, { ...own, tiles: counts.tiles }, byTiles);
}

export const attentionRowsContracts: readonly KernelContract[] = [
  ...ROWS_HEAD_DIMS.map((headDim) => attentionRows('f16', headDim)),
  ...ROWS_Q8_HEAD_DIMS.map((headDim) => attentionRows('q8_0', headDim)),
];
