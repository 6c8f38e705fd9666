import { defineKernel, f32, i32, inout, input, type KernelContract, output } from '../device/contract.js';
import { exact, moved, roundings, stored } from '../device/tolerance.js';
import { FLOAT_TYPES, type FloatType } from './formats.js';
import { qkvOf, readCache, rowArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

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

const scoresOf = (type: FloatType) => inout('scores', type, 'rows', 'heads', 'columns');

export const scale = (type: FloatType) =>
  defineKernel({
    name: `scale_${type}`,
    source: type === 'f32' ? 'scale.hip' : 'twins/scale_f16.hip',
    summary: 'x *= factor',
    arguments: [inout('x', type, 'rows', 'columns'), i32('columns'), f32('factor')],
    grid: [{ of: 'rows' }],
    tolerance: exact('one rounding, to f32 and, in f16, one more, as in the reference'),
  });

/** `window`: the positions up to a row's own that are not masked, 0 for all. */
export const mask = (type: FloatType) =>
  defineKernel({
    name: `mask_${type}`,
    source: type === 'f32' ? 'mask.hip' : 'twins/mask_f16.hip',
    summary: 'scores[r][h][c] = value for each column past the row’s position, or `window` before it',
    arguments: [
      scoresOf(type),
      input('row_position', 'i32', 'rows'),
      i32('heads'),
      i32('columns'),
      i32('window'),
      f32('value'),
    ],
    grid: [{ of: 'heads' }, { of: 'rows' }],
    tolerance: moved,
  });

export const causalMask = (type: FloatType) =>
  defineKernel({
    name: `causal_mask_${type}`,
    source: 'twins/causal_mask.hip',
    summary: 'scores[r][h][c] = value for each column c > r + past',
    arguments: [scoresOf(type), i32('heads'), i32('columns'), i32('past'), f32('value')],
    grid: [{ of: 'heads' }, { of: 'rows' }],
    tolerance: moved,
  });

export const softmax = (type: FloatType) =>
  defineKernel({
    name: `softmax_${type}`,
    source: type === 'f32' ? 'softmax.hip' : 'twins/softmax_f16.hip',
    summary: 'y = e^(x - max x) / sum e^(x - max x); a row of -inf gives 0',
    arguments: [input('x', type, 'rows', 'columns'), output('y', type, 'rows', 'columns'), i32('columns')],
    grid: [{ of: 'rows' }],
    inPlace: [['x', 'y']],
    order: ORDER.row,
    tolerance: stored(
      type,
      roundings(
        '(columns / 8 + 280) · 2⁻²⁴ · |reference|: the difference from the largest, up to 87, is rounded once, which ' +
          'e^x passes on 87-combine, twice; sums of positive terms, 8 or more at a time',
        ({ columns }) => columns! / 8 + 280,
      ),
    ),
  });

export const unfusedAttentionOperations = {
  'qkt-matmul': [...FLOAT_TYPES.map(qktMatmulPaged), qktMatmul],
  scale: FLOAT_TYPES.map(scale),
  mask: FLOAT_TYPES.map(mask),
  'causal-mask': FLOAT_TYPES.map(causalMask),
  softmax: FLOAT_TYPES.map(softmax),
  'weighted-matmul': [...FLOAT_TYPES.map(weightedMatmulPaged), weightedMatmul],
} satisfies Readonly<Record<string, readonly KernelContract[]>>;
