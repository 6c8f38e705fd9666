import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, output } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { exact, roundings, type Tolerance } from '../tolerance.js';
import { attentionPaged, type FloatType, HEAD_DIMS, ropeKvAppend } from './forward.js';

/** Tokens of one split of a context; `SPLIT` of `kernels/forge/attention.h`. */
export const ATTENTION_SPLIT = 256;
/** The most rows of one tile of flash_attention_causal. */
export const FLASH_QUERIES = 32;

const cache = <const N extends string>(name: N, type: FloatType, headDim: string) =>
  inout(name, type, 'blocks', 'kv_heads', '16', headDim);
const rowArguments = [
  input('row_position', 'i32', 'tokens'),
  input('row_slot', 'i32', 'tokens'),
  input('slots', 'i32', 'slot_count', 'slot_words'),
  i32('slot_words'),
] as const;
const qkvOf = (headDim: string) => input('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', headDim);
const readCache = <const N extends string>(name: N, type: FloatType, headDim: string) =>
  input(name, type, 'blocks', 'kv_heads', '16', headDim);

export const rope = defineKernel({
  name: 'rope',
  source: 'rope.hip',
  summary: 'rotates the first heads of each row by the row’s position, in place',
  arguments: [
    inout('x', 'f32', 'tokens', 'row_heads', 'head_dim'),
    input('cosine', 'f32', 'max_position', 'half_rotary'),
    input('sine', 'f32', 'max_position', 'half_rotary'),
    input('row_position', 'i32', 'tokens'),
    i32('row_heads'),
    i32('head_dim'),
    i32('rotary'),
    i32('adjacent'),
  ],
  grid: [{ of: 'heads' }, { of: 'tokens' }],
  multiples: [['rotary', '2']],
  tolerance: ropeKvAppend('f32').tolerance,
});

export const kvAppend = (type: FloatType) =>
  defineKernel({
    name: `kv_append_${type}`,
    source: 'kv_append.hip',
    summary: 'stores k and v of each row in the cache at the row’s position',
    arguments: [
      qkvOf('head_dim'),
      cache('k_cache', type, 'head_dim'),
      cache('v_cache', type, 'head_dim'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('head_dim'),
    ],
    grid: [{ of: '2 * kv_heads' }, { of: 'tokens' }],
    tolerance: exact('values are moved, and in f16 rounded once, as in the reference'),
  });

/** Bytes of q8_0 for each element of a block of a KV cache: int8 quants, and an f16 scale for each 32 (`forge/kv_q8.h`). */
const KV_Q8_BLOCK = ['blocks', 'kv_heads', '17'] as const;
/** Bytes of one tensor of a q8_0 KV cache; head_dim is a multiple of 32. */
export function kvQ8Bytes(blocks: number, kvHeads: number, headDim: number): number {
  return blocks * kvHeads * 17 * headDim;
}
const q8Cache = <const N extends string>(name: N, headDim: string) =>
  aligned(4, inout(name, 'u8', ...KV_Q8_BLOCK, headDim));
const readQ8Cache = <const N extends string>(name: N, headDim: string) =>
  aligned(4, input(name, 'u8', ...KV_Q8_BLOCK, headDim));
const QUANTIZED = exact('one rounding an operation, the same as the reference rounded to f32');

export const kvAppendQ8 = defineKernel({
  name: 'kv_append_q8_0',
  source: 'twins/kv_append_q8_0.hip',
  summary: 'quantizes k and v of each row into the cache at the row’s position',
  arguments: [
    aligned(16, qkvOf('head_dim')),
    q8Cache('k_cache', 'head_dim'),
    q8Cache('v_cache', 'head_dim'),
    ...rowArguments,
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
  ],
  grid: [{ of: '2 * kv_heads' }, { of: 'tokens' }],
  multiples: [['head_dim', '32']],
  tolerance: QUANTIZED,
});

/** Unlike its twins this rotates k in place, too. */
export const ropeKvAppendQ8 = defineKernel({
  name: 'rope_kv_append_q8_0',
  source: 'twins/rope_kv_append_q8_0.hip',
  summary: 'rotates q and k in place by their position; quantizes k and v into the cache',
  arguments: [
    aligned(16, inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim')),
    q8Cache('k_cache', 'head_dim'),
    q8Cache('v_cache', 'head_dim'),
    input('cosine', 'f32', 'max_position', 'half_rotary'),
    input('sine', 'f32', 'max_position', 'half_rotary'),
    ...rowArguments,
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    i32('rotary'),
    i32('adjacent'),
  ],
  grid: [{ of: 'heads + 2 * kv_heads' }, { of: 'tokens' }],
  multiples: [
    ['head_dim', '32'],
    ['rotary', '2'],
  ],
  tolerance: QUANTIZED,
});

const DOT = roundings(
  '(head_dim / 32 + 24) · 2⁻²⁴ · sum |q · k|: 32 or more partial sums, and a tail of at most 15',
  (sizes) => sizes.head_dim! / 32 + 24,
);
const WEIGHTED = roundings(
  '(2 + 4 · √columns) · 2⁻²⁴ · sum |weights · v|: a sum in order strays by 4 · √columns roundings',
  (sizes) => 2 + 4 * Math.sqrt(sizes.columns!),
);
const unfusedSizes = [i32('heads'), i32('kv_heads'), i32('head_dim'), i32('columns')] as const;

export const qktMatmul = defineKernel({
  name: 'qkt_matmul',
  source: 'twins/qkt_matmul_unpaged.hip',
  summary: 'scores[r][h][c] = q[r][h] · k[c][h’s KV head]',
  arguments: [
    input('q', 'f32', 'rows', 'heads', 'head_dim'),
    input('k', 'f32', 'columns', 'kv_heads', 'head_dim'),
    output('scores', 'f32', 'rows', 'heads', 'columns'),
    ...unfusedSizes,
  ],
  grid: [{ of: 'heads' }, { of: 'rows' }],
  multiples: [['heads', 'kv_heads']],
  order: ORDER.dot,
  tolerance: DOT,
});

export const qktMatmulPaged = (type: FloatType) =>
  defineKernel({
    name: `qkt_matmul_paged_${type}`,
    source: 'qkt_matmul.hip',
    summary: 'scores of each row over its slot’s cache; 0 past the row’s position',
    arguments: [
      qkvOf('head_dim'),
      readCache('k_cache', type, 'head_dim'),
      output('scores', 'f32', 'tokens', 'heads', 'columns'),
      ...rowArguments,
      ...unfusedSizes,
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.dot,
    tolerance: DOT,
  });

export const weightedMatmul = defineKernel({
  name: 'weighted_matmul',
  source: 'twins/weighted_matmul_unpaged.hip',
  summary: 'out[r][h] = sum_c weights[r][h][c] * v[c][h’s KV head]',
  arguments: [
    input('weights', 'f32', 'rows', 'heads', 'columns'),
    input('v', 'f32', 'columns', 'kv_heads', 'head_dim'),
    output('out', 'f32', 'rows', 'heads', 'head_dim'),
    ...unfusedSizes,
  ],
  grid: [{ of: 'heads' }, { of: 'rows' }],
  multiples: [['heads', 'kv_heads']],
  order: ORDER.rising,
  tolerance: WEIGHTED,
});

export const weightedMatmulPaged = (type: FloatType) =>
  defineKernel({
    name: `weighted_matmul_paged_${type}`,
    source: 'weighted_matmul.hip',
    summary: 'weighted sum of the values of each row’s slot, up to the row’s position',
    arguments: [
      input('weights', 'f32', 'tokens', 'heads', 'columns'),
      readCache('v_cache', type, 'head_dim'),
      output('out', 'f32', 'tokens', 'heads', 'head_dim'),
      ...rowArguments,
      ...unfusedSizes,
    ],
    grid: [{ of: 'heads' }, { of: 'tokens' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.rising,
    tolerance: WEIGHTED,
  });

export const flashAttentionNocausal = (headDim: number) =>
  defineKernel({
    name: `flash_attention_nocausal_d${headDim}`,
    source: 'twins/flash_attention_nocausal.hip',
    summary: 'out = softmax(scale · q kᵀ) v, every query over every key',
    arguments: [
      input('q', 'f32', 'batch', 'rows', 'heads', `${headDim}`),
      input('k', 'f32', 'batch', 'columns', 'kv_heads', `${headDim}`),
      input('v', 'f32', 'batch', 'columns', 'kv_heads', `${headDim}`),
      output('out', 'f32', 'batch', 'rows', 'heads', `${headDim}`),
      i32('rows'),
      i32('columns'),
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'rows', per: FLASH_QUERIES }, { of: 'batch' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.keys,
    tolerance: attentionPaged('f32', headDim).tolerance,
  });

export const flashAttentionCausal = (type: FloatType, headDim: number) =>
  defineKernel({
    name: `flash_attention_causal_${type}_d${headDim}`,
    source: 'twins/flash_attention_causal.hip',
    summary: 'causal attention of tiles of consecutive rows of one slot over the paged cache',
    arguments: [
      qkvOf(`${headDim}`),
      readCache('k_cache', type, `${headDim}`),
      readCache('v_cache', type, `${headDim}`),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('tiles', 'i32', 'tiles', '2'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'heads' }, { of: 'tiles' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.context,
    tolerance: attentionPaged(type, headDim).tolerance,
  });

export const attentionSplit = (type: FloatType, headDim: number) =>
  defineKernel({
    name: `attention_split_${type}_d${headDim}`,
    source: 'twins/attention_split.hip',
    summary: 'attention of each row over one split of its context, for attention_combine to fold',
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

export const attentionCombine = defineKernel({
  name: 'attention_combine',
  source: 'attention_combine.hip',
  on: 'gpu',
  summary: 'folds the splits of each row in order',
  arguments: [
    input('parts', 'f32', 'tokens', 'heads', 'splits', 'head_dim + 2'),
    output('out', 'f32', 'tokens', 'heads', 'head_dim'),
    input('row_position', 'i32', 'tokens'),
    i32('heads'),
    i32('head_dim'),
    i32('splits'),
  ],
  grid: [{ of: 'heads' }, { of: 'tokens' }],
  order: ORDER.splits,
  tolerance: roundings(
    '(8 · splits + 16) · 2⁻²⁴ · max |values / sum|: each fold scales and adds twice',
    ({ splits }) => 8 * splits! + 16,
  ),
});

/** Head sizes that attention on matrix units is built for. */
export const TILE_HEAD_DIMS: readonly number[] = [64, 128];

/** The most rows of one tile of attention_tile. */
export function attentionTileRows(headDim: number, group: number): number {
  return Math.floor(8192 / headDim / group);
}

const TILE_TOLERANCE: Tolerance = {
  text:
    '2⁻¹⁰ · max |v| · (1 + max scale · √(sum (q k)²)): q and each weight, at most 1, are rounded to f16; a score’s ' +
    'error, of independent roundings, passes through e^x into the weights and their sum',
  bound: (_sizes, magnitude) => 2 ** -10 * magnitude,
};

/** Element types of a KV cache that attention on matrix units reads. */
export type TileCacheType = 'f16' | 'q8_0';
const tileCache = <const N extends string>(name: N, type: TileCacheType, headDim: number) =>
  type === 'f16' ? aligned(16, readCache(name, type, `${headDim}`)) : readQ8Cache(name, `${headDim}`);

/**
 * attention_split on matrix units, all query heads of a KV head in one block; attention_combine folds its parts. The
 * bits are those of attention_tile.
 */
export const attentionTileSplit = (type: TileCacheType, headDim: number) =>
  defineKernel({
    name: `attention_tile_split_${type}_d${headDim}`,
    source: type === 'f16' ? 'attention_tile_split.hip' : 'twins/attention_tile_split_q8_0.hip',
    on: 'gpu',
    summary: 'attention of each row over one split of its context on matrix units, for attention_combine to fold',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      tileCache('k_cache', type, headDim),
      tileCache('v_cache', type, headDim),
      inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('splits'),
      f32('scale'),
    ],
    grid: [{ of: 'kv_heads' }, { of: 'tokens' }, { of: 'splits' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: TILE_TOLERANCE,
  });

/**
 * Tiles are as those of flash_attention_causal: `[tiles, 2]`, first row and number of rows, which are consecutive
 * positions of one slot; at most {@link attentionTileRows}.
 */
export const attentionTile = (type: TileCacheType, headDim: number) =>
  defineKernel({
    name: `attention_tile_${type}_d${headDim}`,
    source: type === 'f16' ? 'attention_tile.hip' : 'twins/attention_tile_q8_0.hip',
    on: 'gpu',
    summary: 'causal attention of tiles of consecutive rows of one slot on matrix units',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      tileCache('k_cache', type, headDim),
      tileCache('v_cache', type, headDim),
      output('out', 'f32', 'tokens', 'heads', `${headDim}`),
      input('tiles', 'i32', 'tiles', '2'),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      f32('scale'),
    ],
    grid: [{ of: 'kv_heads' }, { of: 'tiles' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: TILE_TOLERANCE,
  });

/** Attention in all its forms beside attention_paged, and what feeds it. */
export const attentionContracts: readonly KernelContract[] = [
  rope,
  kvAppend('f32'),
  kvAppend('f16'),
  qktMatmul,
  qktMatmulPaged('f32'),
  qktMatmulPaged('f16'),
  weightedMatmul,
  weightedMatmulPaged('f32'),
  weightedMatmulPaged('f16'),
  ...HEAD_DIMS.flatMap((headDim) => [
    flashAttentionNocausal(headDim),
    flashAttentionCausal('f32', headDim),
    flashAttentionCausal('f16', headDim),
    attentionSplit('f32', headDim),
    attentionSplit('f16', headDim),
  ]),
  attentionCombine,
  kvAppendQ8,
  ropeKvAppendQ8,
  ...TILE_HEAD_DIMS.flatMap((headDim) =>
    (['f16', 'q8_0'] as const).flatMap((type) => [attentionTileSplit(type, headDim), attentionTile(type, headDim)]),
  ),
];
