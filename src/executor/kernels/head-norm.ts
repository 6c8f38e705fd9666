import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, rowsApart } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';

export const headNorm = defineKernel({
  name: 'head_norm',
  source: 'head_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight, for each head of q and k by itself, in place',
  arguments: [
    inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
    input('query_weight', 'f32', 'head_dim'),
    input('key_weight', 'f32', 'head_dim'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    f32('eps'),
  ],
  grid: [{ of: 'heads + kv_heads', per: 'waves' }, { of: 'tokens' }],
  order: ORDER.dot,
  tolerance: roundings(
    '(head_dim / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    (sizes) => sizes.head_dim! / 8 + 16,
  ),
});

/** As {@link headNorm}, by LayerNorms, and each head has weights of its own. */
export const headLayerNorm = defineKernel({
  name: 'head_layer_norm',
  source: 'head_layer_norm.hip',
  summary: '(x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight, for each head of q and k by itself, in place',
  arguments: [
    inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
    input('query_weight', 'f32', 'heads', 'head_dim'),
    input('key_weight', 'f32', 'kv_heads', 'head_dim'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    f32('eps'),
  ],
  grid: [{ of: 'heads + kv_heads', per: 'waves' }, { of: 'tokens' }],
  order: ORDER.dot,
  tolerance: roundings(
    '(head_dim / 8 + 16) · 2⁻²⁴ · (|weight| + |reference|) · (|x| + mean |x|) / deviation, as of layer_norm',
    (sizes) => sizes.head_dim! / 8 + 16,
  ),
});

export const headsNorm = defineKernel({
  name: 'heads_norm',
  source: 'heads_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight, for each of some heads of a row by itself, in place',
  arguments: [
    rowsApart('x_stride', inout('x', 'f32', 'rows', 'heads * head_dim')),
    input('weight', 'f32', 'head_dim'),
    i32('heads'),
    i32('head_dim'),
    i32('x_stride'),
    f32('eps'),
  ],
  grid: [{ of: 'heads', per: 'waves' }, { of: 'rows' }],
  order: ORDER.dot,
  tolerance: headNorm.tolerance,
});

/** Long vectors, of which each of a row has weights of its own. */
export const groupsNorm = defineKernel({
  name: 'groups_norm',
  source: 'groups_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight, for each group of a row by itself, in place',
  arguments: [
    aligned(16, inout('x', 'f32', 'rows', 'groups * width')),
    aligned(16, input('weight', 'f32', 'groups', 'width')),
    i32('groups'),
    i32('width'),
    f32('eps'),
  ],
  grid: [{ of: 'groups' }, { of: 'rows' }],
  order: ORDER.norm,
  tolerance: roundings(
    '(width / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    ({ width }) => width! / 8 + 16,
  ),
});

export const qkNorm = defineKernel({
  name: 'qk_norm',
  source: 'qk_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight, for q of all heads together and for k of all, in place',
  arguments: [
    inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim'),
    input('query_weight', 'f32', 'heads', 'head_dim'),
    input('key_weight', 'f32', 'kv_heads', 'head_dim'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    f32('eps'),
  ],
  grid: [{ of: '2' }, { of: 'tokens' }],
  order: ORDER.row,
  tolerance: roundings(
    '(heads · head_dim / 8 + 16) · 2⁻²⁴ · |reference|: the sum of squares has only positive terms, taken 8 or more at a time',
    (sizes) => (sizes.heads! * sizes.head_dim!) / 8 + 16,
  ),
});

export const headNormContracts: readonly KernelContract[] = [headNorm, headLayerNorm, headsNorm, groupsNorm, qkNorm];
