import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, variants } from '../device/contract.js';
import { exact, roundings, stored } from '../device/tolerance.js';
import { FLOAT_TYPES, type FloatType } from './formats.js';
import { KV_CACHE_TYPES, type KvCacheType, pagedCache, rowArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

export const QUANTIZED = exact('one rounding an operation, the same as the reference rounded to f32');

/** Heads of a row that a block of rope_kv_append takes, but for a q8_0 cache: there it is one. */
export const ROPE_HEADS = 16;

/** Destinations of keys and values, rotation tables, and head counts. */
export const rotatedAppend = (type: KvCacheType) =>
  [
    pagedCache('k_cache', type, 'head_dim', 16),
    pagedCache('v_cache', type, 'head_dim', 16),
    aligned(16, input('cosine', 'f32', 'max_position', 'half_rotary')),
    aligned(16, input('sine', 'f32', 'max_position', 'half_rotary')),
    ...rowArguments,
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
    i32('rotary'),
  ] as const;

/** Over a q8_0 cache this rotates k in place, too. */
export const ropeKvAppend = variants((type: KvCacheType) =>
  defineKernel({
    name: `rope_kv_append_${type}`,
    source: type === 'q8_0' ? 'rope_kv_append_q8_0.hip' : 'rope_kv_append.hip',
    summary: 'rotates q in place and k into the cache by their position; stores v as it is',
    arguments: [
      aligned(16, inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim')),
      ...rotatedAppend(type),
      i32('adjacent'),
    ],
    grid: [{ of: 'heads + 2 * kv_heads', per: type === 'q8_0' ? 1 : ROPE_HEADS }, { of: 'tokens' }],
    multiples: [
      ['head_dim', type === 'q8_0' ? '32' : '8'],
      ['rotary', '2'],
    ],
    tolerance:
      type === 'q8_0'
        ? QUANTIZED
        : stored(
            type,
            roundings('3 · 2⁻²⁴ · (|a| + |b|) of the pair (a, b): two products and their sum', () => 3),
          ),
  }),
);

/** Pairs in which norm_rope_kv_append turns: a thread takes eight elements. */
export const NORMED_ROTARY_MULTIPLE = 8;

export const normRopeKvAppend = variants((type: FloatType) =>
  defineKernel({
    name: `norm_rope_kv_append_${type}`,
    source: 'norm_rope_kv_append.hip',
    summary: 'head_norm, then rope_kv_append',
    arguments: [
      aligned(16, inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim')),
      aligned(16, input('query_weight', 'f32', 'head_dim')),
      aligned(16, input('key_weight', 'f32', 'head_dim')),
      ...rotatedAppend(type),
      i32('adjacent'),
      f32('eps'),
    ],
    grid: [{ of: 'heads + 2 * kv_heads', per: 'waves' }, { of: 'tokens' }],
    multiples: [
      ['head_dim', '8'],
      ['rotary', `${NORMED_ROTARY_MULTIPLE}`],
    ],
    order: ORDER.dot,
    tolerance: stored(
      type,
      roundings(
        "head_norm's (head_dim / 8 + 16) and 3 of the turn, · 2⁻²⁴ · (|a| + |b|) of the pair (a, b)",
        (sizes) => sizes.head_dim! / 8 + 19,
      ),
    ),
  }),
);

export const ropeKvAppendContracts: readonly KernelContract[] = [
  ...KV_CACHE_TYPES.map(ropeKvAppend),
  ...FLOAT_TYPES.map(normRopeKvAppend),
];
