import {
  aligned,
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  output,
  variants,
} from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import { exact } from '../device/tolerance.js';
import { type RotatedSingleToken, rotatedHeads, rotatedInputs, rotatedVariant } from './attention-rotated.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES, TILE_TYPES, type TileType } from './formats.js';
import type { Launch, StepCount, ValuesOf } from './launch-plan.js';
import { FUSED_HEAD_DIMS, qkvOf, readCache, rowArguments, scoringArguments, sinksOf } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/**
 * The most splits of one row that the last of their blocks combines. Beyond them attention_combine, which shares a head's elements
 * out among blocks, takes less time, its launch and all.
 */
export const COMBINED_SPLITS = 64;

/** True if a step of so many rows that are split, into so many splits, has them combined by their last blocks. */
export const combinesSplits = (rows: number, splits: number): boolean => rows === 1 && splits <= COMBINED_SPLITS;

/** Partial results that a row's splits leave for its last block, and their count of ended splits: 0 between launches. */
const shared = (headDim: number) =>
  [
    aligned(8, inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`)),
    inout('arrivals', 'i32', 'tokens', 'kv_heads * head_tiles'),
  ] as const;

/** The form that a product takes of what is attended to. */
export type CombinedEncoding = TileType | 'q8';
export const COMBINED_ENCODINGS: readonly CombinedEncoding[] = ['q8', ...TILE_TYPES];

const combinedOut = (form: CombinedEncoding, headDim: number) =>
  form === 'q8'
    ? aligned(4, output('out', 'u8', 'tokens', 'heads', `${(headDim / Q8_BLOCK) * Q8_BLOCK_BYTES}`))
    : aligned(8, output('out', form, 'tokens', 'heads', `${headDim}`));

const combinedBits = 'attention_combine_quantize or _convert';

/** {@link attentionTileSplitRotated}, and what combines its parts. */
export const attentionTileCombineRotated = variants((form: CombinedEncoding, headDim: number) =>
  defineKernel({
    ...rotatedVariant,
    name: `attention_tile_combine_rotated_${form}_d${headDim}`,
    source: 'attention_tile_combine_rotated.hip',
    summary: 'rope_kv_append, attention_tile_split and what combines its parts, of one row',
    arguments: [
      ...rotatedInputs(headDim),
      ...shared(headDim),
      combinedOut(form, headDim),
      ...rowArguments,
      sinksOf,
      ...rotatedHeads,
      ...scoringArguments,
    ],
    tolerance: exact(`the very bits of rope_kv_append, attention_tile_split and ${combinedBits}`),
  }),
);

/** {@link attentionTileCombineRotated} of heads that are normalized first. */
export const attentionTileCombineNormed = variants((form: CombinedEncoding, headDim: number) =>
  defineKernel({
    ...rotatedVariant,
    name: `attention_tile_combine_normed_${form}_d${headDim}`,
    source: 'attention_tile_combine_rotated.hip',
    summary: 'norm_rope_kv_append, attention_tile_split and what combines its parts, of one row',
    arguments: [
      ...rotatedInputs(headDim),
      input('query_weight', 'f32', `${headDim}`),
      input('key_weight', 'f32', `${headDim}`),
      ...shared(headDim),
      combinedOut(form, headDim),
      ...rowArguments,
      sinksOf,
      ...rotatedHeads,
      f32('eps'),
      ...scoringArguments,
    ],
    tolerance: exact(`the very bits of norm_rope_kv_append, attention_tile_split and ${combinedBits}`),
  }),
);

/** {@link attentionTileSplit} over a cache in q8_0, and what combines its parts. */
export const attentionTileCombineQ8 = variants((form: CombinedEncoding, headDim: number) =>
  defineKernel({
    name: `attention_tile_combine_q8_0_${form}_d${headDim}`,
    source: 'attention_tile_combine_q8_0.hip',
    on: 'portable',
    summary:
      'attention of each row on matrix units over a cache in q8_0, its splits combined by the last of their blocks',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      readCache('k_cache', 'q8_0', `${headDim}`, 16),
      readCache('v_cache', 'q8_0', `${headDim}`, 16),
      ...shared(headDim),
      combinedOut(form, headDim),
      ...rowArguments,
      sinksOf,
      i32('heads'),
      i32('kv_heads'),
      i32('head_tiles'),
      i32('splits'),
      ...scoringArguments,
    ],
    grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }, { of: 'splits' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: exact(`the very bits of attention_tile_split and ${combinedBits}`),
  }),
);

/** Launch that combines one row's splits. */
export interface Combining {
  /** `[kv_heads, head_tiles]` i32, zeros */
  readonly arrivals: DeviceBuffer;
  /** Rows whose last blocks combine their splits, 1 or 0; and those whose parts a launch combines: all others that are split. */
  readonly combined: StepCount;
  readonly parted: StepCount;
}

/**
 * Attention of one row, combined by its last blocks, in the form that a product takes.
 *
 * @param rotated how it is rotated where it attends, over a cache in f16; undefined: the cache is in q8_0, and the row's key in it
 */
export function launchCombined(
  launch: Launch,
  { form, y: out }: { readonly form: CombinedEncoding; readonly y: DeviceBuffer },
  headDim: number,
  values: Omit<ValuesOf<ReturnType<typeof attentionTileCombineQ8>>, 'out'>,
  rotated: RotatedSingleToken | undefined,
  dims: Readonly<Record<string, number | StepCount>>,
): void {
  const own = { ...values, out };
  if (rotated === undefined) {
    launch(attentionTileCombineQ8(form, headDim), own, dims);
    return;
  }
  const { values: angles, norms, dims: tables } = rotated;
  const all = { ...dims, ...tables };
  if (norms === undefined) launch(attentionTileCombineRotated(form, headDim), { ...own, ...angles }, all);
  else launch(attentionTileCombineNormed(form, headDim), { ...own, ...angles, ...norms }, all);
}

export const attentionTileCombineContracts: readonly KernelContract[] = FUSED_HEAD_DIMS.flatMap((headDim) => [
  ...COMBINED_ENCODINGS.flatMap((form) => [
    attentionTileCombineRotated(form, headDim),
    attentionTileCombineNormed(form, headDim),
  ]),
  ...COMBINED_ENCODINGS.map((form) => attentionTileCombineQ8(form, headDim)),
]);
