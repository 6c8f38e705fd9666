import {
  aligned,
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  rowsApart,
  variants,
} from '../device/contract.js';
import { moved, roundings, stored } from '../device/tolerance.js';
import {
  BLOCK_TYPES,
  type BlockType,
  blockFormat,
  Q8_BLOCK,
  Q8_BLOCK_BYTES,
  WEIGHT_FLOAT_TYPES,
  type WeightFloatType,
} from './formats.js';
import { matmul, matmulGrid } from './matmul.js';
import { MATMUL_QUANTIZED_ROWS, MATMUL_QUANTIZED_TOKENS, matmulQuantized } from './matmul-quantized.js';
import { KV_CACHE_TYPES, type KvCacheType, pagedCache, rowArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

const angles = [
  input('cosine', 'f32', 'max_position', 'half_rotary'),
  input('sine', 'f32', 'max_position', 'half_rotary'),
] as const;

/** The key that all heads of latent attention share, `[latent | rotary]`; DeepSeek-V2 (2024). The row is changed in place. */
export const latentAppend = variants((type: KvCacheType) =>
  defineKernel({
    name: `latent_append_${type}`,
    source: 'latent_append.hip',
    summary: 'the norm of the latent part of each row and the rotation of what follows it, stored as the row’s key',
    arguments: [
      aligned(16, inout('x', 'f32', 'tokens', 'latent + rotary')),
      input('weight', 'f32', 'latent'),
      pagedCache('cache', type, 'latent + rotary'),
      ...angles,
      ...rowArguments,
      i32('latent'),
      i32('rotary'),
      i32('adjacent'),
      f32('eps'),
    ],
    grid: [{ of: 'tokens' }],
    multiples: [
      ['latent', '4'],
      ['rotary', type === 'q8_0' ? '4' : '2'],
      ['latent + rotary', type === 'q8_0' ? '32' : '4'],
    ],
    order: ORDER.norm,
    tolerance: stored(
      type === 'q8_0' ? 'f32' : type,
      roundings(
        '(latent / 8 + 16) · 2⁻²⁴ · |reference| of the norm, 3 · 2⁻²⁴ · (|a| + |b|) of a rotated pair (a, b)',
        (sizes) => sizes.latent! / 8 + 16,
      ),
    ),
  }),
);

/** `absorbed` has room for the products of the plain parts, and two rows more as `attention_paged` has of keys and values. */
export const latentQuery = defineKernel({
  name: 'latent_query',
  source: 'latent_query.hip',
  summary: 'the plain part of each head of q, heads first, and its rotated part behind the room for that one’s product',
  arguments: [
    input('query', 'f32', 'rows', 'heads', 'plain + rotary'),
    ...angles,
    input('row_position', 'i32', 'rows'),
    input('tokens', 'i32', '1'),
    inout('plain_parts', 'f32', 'heads', 'rows', 'plain'),
    inout('absorbed', 'f32', 'rows', 'heads + 2', 'latent + rotary'),
    i32('heads'),
    i32('plain'),
    i32('latent'),
    i32('rotary'),
    i32('adjacent'),
  ],
  grid: [{ of: 'heads' }, { of: 'rows' }],
  multiples: [['rotary', '2']],
  tolerance: roundings('3 · 2⁻²⁴ · (|a| + |b|) of a rotated pair (a, b)', () => 3),
});

export const headsFirst = defineKernel({
  name: 'heads_first',
  source: 'heads_first.hip',
  summary: 'y[h][t] = the first columns of x[t][h]',
  arguments: [
    input('x', 'f32', 'rows', 'heads', 'width'),
    inout('y', 'f32', 'heads', 'rows', 'columns'),
    input('tokens', 'i32', '1'),
    i32('heads'),
    i32('width'),
    i32('columns'),
  ],
  grid: [{ of: 'heads' }, { of: 'rows' }],
  tolerance: moved,
});

const headTarget = rowsApart('y_stride', inout('y', 'f32', 'rows', '(heads - 1) * head_stride + out'));

/** {@link matmul} of each head's matrix and its rows, which follow each other. */
export const matmulHeads = (type: WeightFloatType) => {
  const { order, tolerance } = matmul(type);
  return defineKernel({
    name: `matmul_heads_${type}`,
    source: 'matmul.hip',
    summary: 'y[t][h][n] = sum_k weight[h][n][k] * x[h][t][k]',
    arguments: [
      input('weight', type, 'heads', 'out', 'in'),
      input('x', 'f32', 'heads', 'rows', 'in'),
      headTarget,
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('in'),
      i32('y_stride'),
      i32('head_stride'),
    ],
    grid: [...matmulGrid, { of: 'heads' }],
    order: order!,
    tolerance,
  });
};

/** {@link matmulQuantized} of each head's matrix and its rows, which follow each other. */
export const matmulQuantizedHeads = (type: BlockType) => {
  const { blockElements, blockBytes } = blockFormat(type);
  const { order, tolerance } = matmulQuantized(type);
  return defineKernel({
    name: `matmul_heads_${type}`,
    source: 'matmul_quantized.hip',
    summary: 'y[t][h][n] = sum_k weight[h][n][k] * x[h][t][k], weight in blocks, x as quantize_q8 makes it',
    arguments: [
      input('weight', 'u8', 'heads', 'out', 'blocks', `${blockBytes}`),
      aligned(4, input('x', 'u8', 'heads', 'rows', 'blocks', `${(blockElements / Q8_BLOCK) * Q8_BLOCK_BYTES}`)),
      headTarget,
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('blocks'),
      i32('y_stride'),
      i32('head_stride'),
    ],
    grid: [{ of: 'out', per: MATMUL_QUANTIZED_ROWS }, { of: 'rows', per: MATMUL_QUANTIZED_TOKENS }, { of: 'heads' }],
    order: order!,
    tolerance,
  });
};

/** Rows of a head's weight and of x that a block of matmul_heads_tile multiplies, and the longest of them. */
export const HEADS_TILE_OUTS = 16;
export const HEADS_TILE_ROWS = 128;
export const HEADS_TILE_MOST_IN = 512;
/** Elements of a product of tiles, and of a tile: `in` and `out` are multiples. */
const [DEPTH, TILE] = [32, 16] as const;

/** Types of weights that {@link matmulHeadsTile} takes. */
const HEADS_TILE_TYPES = ['f16', ...BLOCK_TYPES] as const;
type HeadsTileType = (typeof HEADS_TILE_TYPES)[number];

/** {@link matmulHeads} on matrix units. Dimension `blocks`: of a row of weights in blocks. */
export const matmulHeadsTile = variants((type: HeadsTileType) =>
  defineKernel({
    name: `matmul_heads_tile_${type}`,
    source: 'matmul_heads_tile.hip',
    on: 'gpu',
    summary: 'y[t][h][n] = sum_k weight[h][n][k] * x[h][t][k], both rounded to f16',
    arguments: [
      type === 'f16'
        ? input('weight', 'f16', 'heads', 'out', 'in')
        : input('weight', 'u8', 'heads', 'out', 'blocks', `${blockFormat(type).blockBytes}`),
      aligned(16, input('x', 'f32', 'heads', 'rows', 'in')),
      aligned(8, headTarget),
      input('tokens', 'i32', '1'),
      i32('out'),
      i32('in'),
      i32('y_stride'),
      i32('head_stride'),
    ],
    grid: [{ of: 'out', per: HEADS_TILE_OUTS }, { of: 'rows', per: HEADS_TILE_ROWS }, { of: 'heads' }],
    multiples: [
      ['in', `${DEPTH}`],
      ['out', `${TILE}`],
      ['y_stride', '2'],
      ['head_stride', '2'],
    ],
    order: ORDER.risingTiles,
    tolerance: roundings(
      '(in + 8) · 2⁻²⁴ · sum |weight · x| of what is rounded to f16: one chain of products',
      (sizes) => sizes.in! + 8,
    ),
  }),
);

/** True if {@link matmulHeadsTile} is built for such matrices. */
export const isHeadsTile = (type: WeightFloatType | BlockType, out: number, columns: number): type is HeadsTileType =>
  (HEADS_TILE_TYPES as readonly string[]).includes(type) &&
  columns <= HEADS_TILE_MOST_IN &&
  columns % DEPTH === 0 &&
  out % TILE === 0;

export const latentAttentionContracts: readonly KernelContract[] = [
  ...KV_CACHE_TYPES.map(latentAppend),
  latentQuery,
  headsFirst,
  ...WEIGHT_FLOAT_TYPES.map(matmulHeads),
  ...BLOCK_TYPES.map(matmulQuantizedHeads),
  ...HEADS_TILE_TYPES.map(matmulHeadsTile),
];
