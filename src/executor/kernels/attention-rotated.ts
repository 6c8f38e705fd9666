import { aligned, defineKernel, f32, i32, inout, input, variants } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import type { LaunchCondition, ValuesOf } from './launch-plan.js';
import { pagedCache, qkvOf, rowArguments, scoringArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

export const rotatedInputs = (headDim: number) =>
  [
    aligned(16, qkvOf(`${headDim}`)),
    pagedCache('k_cache', 'f16', `${headDim}`, 16),
    pagedCache('v_cache', 'f16', `${headDim}`, 16),
    input('cosine', 'f32', 'max_position', 'half_rotary'),
    input('sine', 'f32', 'max_position', 'half_rotary'),
  ] as const;
export const rotatedHeads = [
  i32('heads'),
  i32('kv_heads'),
  i32('head_tiles'),
  i32('splits'),
  i32('rotary'),
  i32('adjacent'),
] as const;
const partsOf = (headDim: number) => inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`);
export const rotatedVariant = {
  source: 'attention_tile_split_rotated.hip',
  on: 'portable',
  grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }, { of: 'splits' }],
  multiples: [
    ['heads', 'kv_heads'],
    ['rotary', '2'],
  ],
  order: ORDER.chunks,
} as const;

/** {@link attentionTileSplit} of one row whose q is not rotated yet, and whose key and value are not in the cache. */
export const attentionTileSplitRotated = variants((headDim: number) =>
  defineKernel({
    name: `attention_tile_split_rotated_f16_d${headDim}`,
    ...rotatedVariant,
    summary: 'rope_kv_append, then attention_tile_split, of one row',
    arguments: [...rotatedInputs(headDim), partsOf(headDim), ...rowArguments, ...rotatedHeads, ...scoringArguments],
    tolerance: exact('the very bits of rope_kv_append and attention_tile_split'),
  }),
);

/** {@link attentionTileSplitRotated} of heads that are normalized first. */
export const attentionTileSplitNormed = variants((headDim: number) =>
  defineKernel({
    name: `attention_tile_split_normed_f16_d${headDim}`,
    ...rotatedVariant,
    summary: 'norm_rope_kv_append, then attention_tile_split, of one row',
    arguments: [
      ...rotatedInputs(headDim),
      input('query_weight', 'f32', `${headDim}`),
      input('key_weight', 'f32', `${headDim}`),
      partsOf(headDim),
      ...rowArguments,
      ...rotatedHeads,
      f32('eps'),
      ...scoringArguments,
    ],
    tolerance: exact('the very bits of norm_rope_kv_append and attention_tile_split'),
  }),
);

/** Rotation of one row's q and k inside attention, in single-token steps. */
export interface RotatedSingleToken {
  readonly values: Pick<
    ValuesOf<ReturnType<typeof attentionTileSplitRotated>>,
    'cosine' | 'sine' | 'rotary' | 'adjacent'
  >;
  readonly norms:
    | Pick<ValuesOf<ReturnType<typeof attentionTileSplitNormed>>, 'query_weight' | 'key_weight' | 'eps'>
    | undefined;
  readonly dims: { readonly max_position: number; readonly half_rotary: number };
  readonly singleToken: LaunchCondition;
  readonly multiToken: LaunchCondition;
}
