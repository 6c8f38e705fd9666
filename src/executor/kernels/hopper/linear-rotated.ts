import { aligned, defineKernel, f32, i32, inout, type KernelContract, variants } from '../../device/contract.js';
import { exact } from '../../device/tolerance.js';
import type { ValuesOf } from '../launch-plan.js';
import { rotatedAppend } from '../rope-kv-append.js';
import { saturatedCount } from './columns.js';
import { FRAGMENT_CHUNK, FRAGMENT_FORMATS, type FragmentFormat, fragmentWeight } from './fragments.js';
import {
  FORMAT_PAIRS,
  type FormatPair,
  LINEAR_DECODE_ROWS,
  normedInputs,
  onePair,
  pairSizes,
  pairWeights,
  singleTokenShape,
} from './linear-decode.js';

/** Elements that RoPE of whole units turns at a time. */
const TURN_UNIT = 8;

const headMultiples = [
  ['head_dim', `${LINEAR_DECODE_ROWS}`],
  ['rotary', `${TURN_UNIT}`],
] as const;

const inputs = [
  ...normedInputs,
  aligned(16, inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim')),
  saturatedCount,
  ...rotatedAppend('f16'),
] as const;
const bits = exact('the very bits of linear_normed and rope_kv_append');

/**
 * Dimensions as of {@link linearNormed}; `biases`: of all of q, k and v. `first`: the column of q, k and v side by side at which
 * the matrix's outputs begin.
 */
export const linearRotated = variants((format: FragmentFormat) =>
  defineKernel({
    ...singleTokenShape,
    name: `linear_rotated_${format}`,
    source: 'hopper/linear_rotated.hip',
    summary: 'linear_normed of q, k and v of one row, and rope_kv_append of pairs of neighbours',
    arguments: [
      fragmentWeight(format, 'tiles'),
      ...inputs,
      i32('first'),
      i32('out'),
      i32('in'),
      i32('biased'),
      f32('eps'),
    ],
    multiples: [
      ['in', `${FRAGMENT_CHUNK}`],
      ['first', `${LINEAR_DECODE_ROWS}`],
      ['out', `${LINEAR_DECODE_ROWS}`],
      ...headMultiples,
    ],
    tolerance: bits,
  }),
);

/** The same of q and k, and of v, in formats of their own. */
export const linearRotatedPair = variants((pair: FormatPair) =>
  defineKernel({
    ...onePair,
    name: `linear_rotated_${pair.join('_')}`,
    source: 'hopper/linear_rotated.hip',
    summary: 'linear_normed of q, k and v of one row in two formats, and rope_kv_append of pairs of neighbours',
    arguments: [...pairWeights(pair), ...inputs, ...pairSizes],
    multiples: [...onePair.multiples, ...headMultiples],
    tolerance: bits,
  }),
);

/** RoPE tables of q, k and v of one row in the product that computes them, and their destinations. */
export interface RotatedHeads {
  readonly values: Pick<
    ValuesOf<ReturnType<typeof linearRotated>>,
    | 'k_cache'
    | 'v_cache'
    | 'cosine'
    | 'sine'
    | 'row_position'
    | 'row_slot'
    | 'slots'
    | 'slot_words'
    | 'heads'
    | 'kv_heads'
    | 'head_dim'
    | 'rotary'
  >;
  readonly dims: Readonly<Record<string, number>>;
}

/** True if heads of such a size are computed by whole groups, and rotated by whole units. */
export const canRotateHeads = (headDim: number, rotary: number): boolean =>
  headDim % LINEAR_DECODE_ROWS === 0 && rotary % TURN_UNIT === 0;

export const linearRotatedContracts: readonly KernelContract[] = [
  ...FRAGMENT_FORMATS.map(linearRotated),
  ...FORMAT_PAIRS.map(linearRotatedPair),
];
