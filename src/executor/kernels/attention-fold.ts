import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, output } from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import { exact } from '../device/tolerance.js';
import { type RotatedSingleToken, rotatedInputs, rotatedSizes, rotatedVariant } from './attention-rotated.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES, TILE_TYPES, type TileType } from './formats.js';
import type { Launch, StepCount, ValuesOf } from './launch-plan.js';
import { qkvOf, readCache, rowArguments, TILE_HEAD_DIMS } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

/**
 * The most splits of one row that the last of their blocks folds. Beyond them attention_combine, which shares a head's elements
 * out among blocks, takes less time, its launch and all.
 */
export const FOLDED_SPLITS = 64;

/** Whether a step of so many rows that are split, into so many splits, has them folded by their last blocks. */
export const foldsSplits = (rows: number, splits: number): boolean => rows === 1 && splits <= FOLDED_SPLITS;

/** What the splits of a row leave for its last block, and where they count how many of them have ended: 0 between launches. */
const shared = (headDim: number) =>
  [
    aligned(8, inout('parts', 'f32', 'tokens', 'heads', 'splits', `${headDim} + 2`)),
    inout('arrivals', 'i32', 'tokens', 'kv_heads * head_tiles'),
  ] as const;

/** The form that a product takes of what is attended to. */
export type FoldedEncoding = TileType | 'q8';
export const FOLDED_ENCODINGS: readonly FoldedEncoding[] = ['q8', ...TILE_TYPES];

const foldedOut = (form: FoldedEncoding, headDim: number) =>
  form === 'q8'
    ? aligned(4, output('out', 'u8', 'tokens', 'heads', `${(headDim / Q8_BLOCK) * Q8_BLOCK_BYTES}`))
    : aligned(8, output('out', form, 'tokens', 'heads', `${headDim}`));

const foldedBits = 'attention_combine_quantize or _convert';

/** {@link attentionTileSplitRotated}, and what folds its parts. */
export const attentionTileFoldRotated = (form: FoldedEncoding, headDim: number) =>
  defineKernel({
    ...rotatedVariant,
    name: `attention_tile_fold_rotated_${form}_d${headDim}`,
    source: 'attention_tile_fold_rotated.hip',
    summary: 'rope_kv_append, attention_tile_split and what folds its parts, of one row',
    arguments: [...rotatedInputs(headDim), ...shared(headDim), foldedOut(form, headDim), ...rotatedSizes, f32('scale')],
    tolerance: exact(`the very bits of rope_kv_append, attention_tile_split and ${foldedBits}`),
  });

/** {@link attentionTileFoldRotated} of heads that are normalized first. */
export const attentionTileFoldNormed = (form: FoldedEncoding, headDim: number) =>
  defineKernel({
    ...rotatedVariant,
    name: `attention_tile_fold_normed_${form}_d${headDim}`,
    source: 'attention_tile_fold_rotated.hip',
    summary: 'norm_rope_kv_append, attention_tile_split and what folds its parts, of one row',
    arguments: [
      ...rotatedInputs(headDim),
      input('query_weight', 'f32', `${headDim}`),
      input('key_weight', 'f32', `${headDim}`),
      ...shared(headDim),
      foldedOut(form, headDim),
      ...rotatedSizes,
      f32('eps'),
      f32('scale'),
    ],
    tolerance: exact(`the very bits of norm_rope_kv_append, attention_tile_split and ${foldedBits}`),
  });

/** {@link attentionTileSplit} over a cache in q8_0, and what folds its parts. */
export const attentionTileFoldQ8 = (form: FoldedEncoding, headDim: number) =>
  defineKernel({
    name: `attention_tile_fold_q8_0_${form}_d${headDim}`,
    source: 'attention_tile_fold_q8_0.hip',
    on: 'portable',
    summary:
      'attention of each row on matrix units over a cache in q8_0, its splits folded by the last of their blocks',
    arguments: [
      aligned(16, qkvOf(`${headDim}`)),
      readCache('k_cache', 'q8_0', `${headDim}`, 16),
      readCache('v_cache', 'q8_0', `${headDim}`, 16),
      ...shared(headDim),
      foldedOut(form, headDim),
      ...rowArguments,
      i32('heads'),
      i32('kv_heads'),
      i32('head_tiles'),
      i32('splits'),
      f32('scale'),
    ],
    grid: [{ of: 'kv_heads * head_tiles' }, { of: 'tokens' }, { of: 'splits' }],
    multiples: [['heads', 'kv_heads']],
    order: ORDER.chunks,
    tolerance: exact(`the very bits of attention_tile_split and ${foldedBits}`),
  });

/** How one row's splits are folded. */
export interface Folding {
  /** `[kv_heads, head_tiles]` i32, zeros */
  readonly arrivals: DeviceBuffer;
  /** Rows whose last blocks fold their splits, 1 or 0; and those whose parts a launch folds: all others that are split. */
  readonly folded: StepCount;
  readonly parted: StepCount;
}

/**
 * Attention of one row, folded by its last blocks, in the form that a product takes.
 *
 * @param rotated how it is rotated where it attends, over a cache in f16; undefined: the cache is in q8_0, and the row's key in it
 */
export function launchFolded(
  launch: Launch,
  { form, y: out }: { readonly form: FoldedEncoding; readonly y: DeviceBuffer },
  headDim: number,
  values: Omit<ValuesOf<ReturnType<typeof attentionTileFoldQ8>>, 'out'>,
  rotated: RotatedSingleToken | undefined,
  dims: Readonly<Record<string, number | StepCount>>,
): void {
  const own = { ...values, out };
  if (rotated === undefined) {
    launch(attentionTileFoldQ8(form, headDim), own, dims);
    return;
  }
  const { values: angles, norms, dims: tables } = rotated;
  const all = { ...dims, ...tables };
  if (norms === undefined) launch(attentionTileFoldRotated(form, headDim), { ...own, ...angles }, all);
  else launch(attentionTileFoldNormed(form, headDim), { ...own, ...angles, ...norms }, all);
}

export const attentionFoldContracts: readonly KernelContract[] = TILE_HEAD_DIMS.flatMap((headDim) => [
  ...FOLDED_ENCODINGS.flatMap((form) => [
    attentionTileFoldRotated(form, headDim),
    attentionTileFoldNormed(form, headDim),
  ]),
  ...FOLDED_ENCODINGS.map((form) => attentionTileFoldQ8(form, headDim)),
]);
