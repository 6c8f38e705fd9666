import {
  aligned,
  type DeviceClass,
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  output,
} from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import { exact, roundings, type Tolerance } from '../device/tolerance.js';
import { type AttendedEncoding, launchAttended, launchCombine } from './attention-combine.js';
import { attentionTileSplitNormed, attentionTileSplitRotated, type RotatedSingleToken } from './attention-rotated.js';
import type { ContextParts } from './attention-splits.js';
import { type Combining, launchCombined } from './attention-tile-combine.js';
import { FLOAT_TYPES, type FloatType, TILE_TYPES, type TileType } from './formats.js';
import { COLUMNS_MULTIPLE, columnsOf } from './hopper/columns.js';
import { chunksOf } from './hopper/fragments.js';
import type { Launch, StepCount, ValuesOf } from './launch-plan.js';
import {
  ATTENTION_WIDE_LDS,
  ATTENTION_WIDE_PARTS_LDS,
  ATTENTION_WIDE_THREADS,
  FUSED_HEAD_DIMS,
  HEAD_DIMS,
  KV_Q8_HEAD_DIMS,
  type KvCacheType,
  LARGE_HEAD_DIMS,
  PAGED_HEAD_DIMS,
  plainScoringArguments,
  qkvOf,
  readCache,
  rowArguments,
  scoringArguments,
  sinksOf,
  TILE_HEAD_DIMS,
  TILE_Q8_HEAD_DIMS,
  WIDE_HEAD_DIMS,
} from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/** Tokens of one split of a context; on matrix units what is multiplied as one. */
export const ATTENTION_SPLIT = 128;

/** `window`: how many positions a row attends to, 0 for all; `softcap`: 0 for none. */
export const attentionPaged = (type: KvCacheType, headDim: number) =>
  defineKernel({
    name: `attention_paged_${type}_d${headDim}`,
    source: 'attention_paged.hip',
    ...(type === 'f16' && LARGE_HEAD_DIMS.includes(headDim) && { on: 'host' as const }),
    summary:
      'out = softmax(scale · q kᵀ) v over positions 0 .. row_position, or the last `window` of them; scores softcapped',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      ...scoringArguments,
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.context,
    tolerance: roundings(
      '32 · 2⁻²⁴ · max |v| · (1 + max scale · √(sum (q k)²) + softcap): weights sum to 1, a score’s error passes through e^x, and ' +
        'rounding errors of at most 256 terms in order stray by 2 · √256',
      () => 32,
    ),
  });

export const attentionSplit = (type: FloatType, headDim: number) =>
  defineKernel({
    name: `attention_split_${type}_d${headDim}`,
    source: 'twins/attention_split.hip',
    summary: 'attention of each row over one split of its context, for attention_combine to combine',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('splits'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }, { of: 'splits' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.context,
    tolerance: attentionPaged(type, headDim).tolerance,
  });

/** Tiles of the query heads of a KV head: each is a block of attention_tile_split. */
export const headTiles = (group: number): number => Math.ceil(group / 16);

/** Queries of one tile of attention_tile: query heads of a KV head, of each of its rows. */
export const ATTENTION_TILE_QUERIES = 128;

/** The most rows of one tile of attention_tile. Of heads of more than two strips of 64, two waves share each query's values. */
export function attentionTileRows(group: number, headDim: number): number {
  return Math.floor(ATTENTION_TILE_QUERIES / (headDim > 128 ? 2 : 1) / group);
}

export const TILE_TOLERANCE: Tolerance = {
  text:
    '2⁻¹⁰ · max |v| · (1 + max scale · √(sum (q k)²)): q and each weight, at most 1, are rounded to f16; a score’s ' +
    'error, of independent roundings, passes through e^x into the weights and their sum',
  bound: (_sizes, magnitude) => 2 ** -10 * magnitude,
};

/** Element types of a KV cache that attention on matrix units reads. */
export type TileCacheType = Exclude<KvCacheType, 'f32'>;

/** attention_split on matrix units, all query heads of a KV head in one block, with the bits of attention_tile; attention_combine follows. */
export const attentionTileSplit = (type: TileCacheType, headDim: number) =>
  defineKernel({
    name: `attention_tile_split_${type}_d${headDim}`,
    source: `attention_${LARGE_HEAD_DIMS.includes(headDim) ? 'large' : 'tile_split'}${type === 'f16' ? '' : '_q8_0'}.hip`,
    ...({ on: 'gpu', needsBlock: LARGE_HEAD_DIMS.includes(headDim) } as const),
    summary: 'attention of each row over one split of its context on matrix units, for attention_combine to combine',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      readCache('k_cache', type, `${headDim}`, 16),
      readCache('v_cache', type, `${headDim}`, 16),
      inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('head_tiles'),
      i32('splits'),
      ...scoringArguments,
    ],
    grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }, { of: 'splits' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: TILE_TOLERANCE,
  });

/** {@link attentionTileSplit} and {@link attentionCombineColumns} of contexts of one split. */
export const attentionTileColumns = (type: TileType, headDim: number) =>
  defineKernel({
    name: `attention_tile_columns_${type}_d${headDim}`,
    source: 'hopper/attention_tile_columns.hip',
    on: 'hopper',
    summary: 'attention of contexts of one split on matrix units, in columns of 16-bit floats',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      readCache('k_cache', 'f16', `${headDim}`, 16),
      readCache('v_cache', 'f16', `${headDim}`, 16),
      columnsOf('out', type, 'out_rows'),
      ...rowArguments,
      sinksOf,
      i32('heads'),
      i32('kv_heads'),
      i32('head_tiles'),
      i32('out_rows'),
      ...scoringArguments,
    ],
    grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }],
    multiples: [
      ['heads', 'kv_heads'],
      ['out_rows', `${COLUMNS_MULTIPLE}`],
    ],
    order: ORDER.chunks,
    tolerance: exact('the very bits of attention_tile_split and attention_combine_columns'),
  });

/**
 * Tiles are as those of flash_attention_causal: `[tiles, 2]`, first row and number of rows, which are consecutive
 * positions of one slot; at most {@link attentionTileRows}.
 */
const tileArguments = (type: TileCacheType, headDim: number) =>
  [
    aligned(16, qkvOf(`${headDim}`)),
    readCache('k_cache', type, `${headDim}`, 16),
    readCache('v_cache', type, `${headDim}`, 16),
    output('out', 'f32', 'tokens', 'heads', `${headDim}`),
    input('tiles', 'i32', 'tiles', '2'),
    ...rowArguments,
    sinksOf,
    i32('heads'),
    i32('kv_heads'),
  ] as const;
const TILE_FORM = {
  grid: [{ of: 'kv_heads' }, { of: 'tiles' }],
  multiples: [['heads', 'kv_heads']],
  order: ORDER.chunks,
  tolerance: TILE_TOLERANCE,
} as const;

export const attentionTile = (type: TileCacheType, headDim: number) =>
  defineKernel({
    name: `attention_tile_${type}_d${headDim}`,
    source: type === 'f16' ? 'attention_tile.hip' : 'attention_tile_q8_0.hip',
    on: type === 'f16' && WIDE_HEAD_DIMS.includes(headDim) ? 'portable' : 'gpu',
    summary: 'causal attention of tiles of consecutive rows of one slot on matrix units',
    arguments: [...tileArguments(type, headDim), ...scoringArguments],
    ...TILE_FORM,
  });

const wideForm = (headDim: number) =>
  ({
    source: 'hopper/attention_wide.hip',
    on: 'hopper',
    threads: ATTENTION_WIDE_THREADS,
    dynamicSharedBytes: headDim > 128 ? ATTENTION_WIDE_PARTS_LDS : ATTENTION_WIDE_LDS,
    ...TILE_FORM,
  }) as const;

/** attention_tile of an f16 cache on Hopper, with the same bits, for scores that are not softcapped. */
export const attentionWide = (headDim: number) =>
  defineKernel({
    name: `attention_wide_f16_d${headDim}`,
    summary: 'attention_tile on Hopper’s matrix units, scores not softcapped',
    arguments: [...tileArguments('f16', headDim), ...plainScoringArguments],
    ...wideForm(headDim),
  });

export const attentionWideSoftcapped = (headDim: number) =>
  defineKernel({
    name: `attention_wide_softcapped_f16_d${headDim}`,
    summary: 'attention_tile on Hopper’s matrix units',
    arguments: [...tileArguments('f16', headDim), ...scoringArguments],
    ...wideForm(headDim),
  });

/** Heads of attention: query heads in groups that share a KV head. */
export interface AttentionShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  /** Positions that a row attends to; undefined: all up to its own. */
  readonly window?: number | undefined;
}

/** The most consecutive rows of one slot that share keys and values; undefined where attention is row by row. */
export function tileRows(shape: AttentionShape, cacheType: KvCacheType): number | undefined {
  if (cacheType === 'f32' || !TILE_HEAD_DIMS.includes(shape.headDim)) return undefined;
  const rows = attentionTileRows(shape.heads / shape.kvHeads, shape.headDim);
  return rows >= 1 ? rows : undefined;
}

/** Counts of a step's rows, splits of their contexts, and tiles. */
export interface AttentionCounts {
  readonly tokens: StepCount;
  /** Rows whose contexts are split: 0 where tiles are taken, of which there are none elsewhere. */
  readonly splitRows: StepCount;
  readonly splits: StepCount;
  readonly tiles: StepCount;
}

/** Optional extras of attention on matrix units. */
export interface TileExtras {
  readonly attended?: AttendedEncoding | undefined;
  readonly rotated?: RotatedSingleToken | undefined;
  readonly combining?: Combining | undefined;
}

/**
 * Attention of a step's rows on matrix units: few rows are split over many blocks, and many share the keys and values of
 * their sequence. A row's bits are the same in either form.
 */
export function launchAttentionTile(
  { launch, device }: { readonly launch: Launch; readonly device: DeviceClass },
  type: TileCacheType,
  { heads, kvHeads, headDim }: AttentionShape,
  parts: ContextParts & { readonly buffer: DeviceBuffer },
  counts: AttentionCounts,
  values: ValuesOf<ReturnType<typeof attentionTile>>,
  dims: { readonly slot_count: number; readonly blocks: number },
  { attended, rotated, combining }: TileExtras,
): void {
  const { rows, splits, buffer } = parts;
  const { out, tiles: _tiles, ...both } = values;
  const { sinks, window } = both;
  const columns = type === 'f16' ? attended?.columns : undefined;
  const isQuantized = type === 'q8_0' && device === 'portable';
  // On Hopper's, where launches overlap, the last block's combine was slower than a launch's (docs/amd-speed.md).
  const combine = attended !== undefined && (rotated !== undefined || isQuantized) ? combining : undefined;
  const tokens = { ...(combine?.parted ?? counts.splitRows), max: rows };
  const split = { ...both, parts: buffer, head_tiles: headTiles(heads / kvHeads), splits };
  const sizes = { ...dims, tokens, splits: counts.splits };
  const { row_position } = both;
  const combined = { parts: buffer, sinks, row_position, heads, head_dim: headDim, splits, window };
  // Splits to combine; contexts of one split need none.
  const several = columns === undefined ? undefined : { count: counts.splits, atLeast: 2 };
  if (attended !== undefined && attended.form !== 'q8' && columns !== undefined) {
    launch(
      attentionTileColumns(attended.form, headDim),
      { ...both, out: attended.y, head_tiles: split.head_tiles, out_rows: columns.rows },
      { ...dims, tokens: { ...counts.splitRows, max: rows }, chunks: chunksOf(heads * headDim) },
      { count: counts.splits, atMost: 1 },
    );
  }
  if (attended !== undefined && combine !== undefined) {
    const own = { ...split, arrivals: combine.arrivals };
    launchCombined(launch, attended, headDim, own, rotated, { ...sizes, tokens: combine.combined });
  }
  launch(attentionTileSplit(type, headDim), split, sizes, several ?? rotated?.multiToken);
  if (rotated !== undefined) {
    const { values: angles, norms, dims: tables, singleToken } = rotated;
    const [own, all] = [
      { ...split, ...angles },
      { ...sizes, ...tables },
    ];
    if (norms === undefined) launch(attentionTileSplitRotated(headDim), own, all, singleToken);
    else launch(attentionTileSplitNormed(headDim), { ...own, ...norms }, all, singleToken);
  }
  launchCombine(launch, combined, out, attended, { tokens, splits: counts.splits }, several);
  const isWide = device === 'hopper' && type === 'f16' && WIDE_HEAD_DIMS.includes(headDim);
  const tiled = { ...dims, tokens: counts.tokens, tiles: counts.tiles };
  if (isWide && values.softcap === 0) launch(attentionWide(headDim), values, tiled);
  else launch(isWide ? attentionWideSoftcapped(headDim) : attentionTile(type, headDim), values, tiled);
  // Steps that split no context round the tiles' rows in a launch of their own: there are many of them.
  const unsplit = { count: counts.splitRows, atMost: 0 };
  if (attended !== undefined) launchAttended(launch, out, heads * headDim, attended, counts.tokens, unsplit);
}

export const attentionContracts: readonly KernelContract[] = [
  ...PAGED_HEAD_DIMS.flatMap((headDim) => FLOAT_TYPES.map((type) => attentionPaged(type, headDim))),
  ...KV_Q8_HEAD_DIMS.map((headDim) => attentionPaged('q8_0', headDim)),
  ...WIDE_HEAD_DIMS.flatMap((headDim) => [attentionWide(headDim), attentionWideSoftcapped(headDim)]),
  ...FUSED_HEAD_DIMS.flatMap((headDim) => TILE_TYPES.map((type) => attentionTileColumns(type, headDim))),
  ...FUSED_HEAD_DIMS.flatMap((headDim) => [attentionTileSplitRotated(headDim), attentionTileSplitNormed(headDim)]),
  ...TILE_HEAD_DIMS.flatMap((headDim) => [attentionTileSplit('f16', headDim), attentionTile('f16', headDim)]),
  ...TILE_Q8_HEAD_DIMS.flatMap((headDim) => [attentionTileSplit('q8_0', headDim), attentionTile('q8_0', headDim)]),
  ...HEAD_DIMS.flatMap((headDim) => FLOAT_TYPES.map((type) => attentionSplit(type, headDim))),
];
