import { aligned, defineKernel, f32, i32, inout, input, type KernelContract } from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import { exact } from '../device/tolerance.js';
import { saturatedCount } from './columns.js';
import { FRAGMENT_CHUNK, FRAGMENT_FORMATS, type FragmentFormat, fragmentWeight } from './fragments.js';
import type { LaunchCondition, LaunchPlanRecorder, ValuesOf } from './launch-plan.js';
import { LINEAR_ONE_BATCH, LINEAR_ONE_BLOCKS, LINEAR_ONE_LDS, LINEAR_ONE_ROWS, LINEAR_SEGMENTS } from './linear-one.js';
import { pagedCache, rowArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

const shared = (format: FragmentFormat) =>
  ({
    source: 'linear_heads.hip',
    on: 'hopper',
    dynamicSharedBytes: LINEAR_ONE_LDS,
    grid: [{ of: 'out', per: LINEAR_ONE_ROWS, most: LINEAR_ONE_BLOCKS }],
    multiples: [
      ['in', `${LINEAR_SEGMENTS * LINEAR_ONE_BATCH[format] * FRAGMENT_CHUNK}`],
      ['head_dim', `${LINEAR_ONE_ROWS}`],
      ['first', `${LINEAR_ONE_ROWS}`],
      ['out', `${LINEAR_ONE_ROWS}`],
      ['rotary', '8'],
    ],
    order: ORDER.halves,
  }) as const;

const inputs = (format: FragmentFormat) =>
  [
    fragmentWeight(format, 'tiles'),
    aligned(16, input('x', 'f32', 'in')),
    aligned(16, input('norm', 'f32', 'in')),
    input('parts', 'f32', 'parts'),
    input('bias', 'f32', 'biases'),
    aligned(16, inout('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', 'head_dim')),
    saturatedCount,
    pagedCache('k_cache', 'f16', 'head_dim', 16),
    pagedCache('v_cache', 'f16', 'head_dim', 16),
    aligned(16, input('cosine', 'f32', 'max_position', 'half_rotary')),
    aligned(16, input('sine', 'f32', 'max_position', 'half_rotary')),
  ] as const;
const headSizes = [...rowArguments, i32('heads'), i32('kv_heads'), i32('head_dim'), i32('rotary')] as const;
/** `first`: the column of q, k and v side by side at which the matrix's outputs begin. */
const sizes = [i32('first'), i32('out'), i32('in'), i32('biased')] as const;

/** Heads of pairs that are neighbours. Dimensions as of {@link linearNormed}; `biases`: of all of q, k and v. */
export const linearTurned = (format: FragmentFormat) =>
  defineKernel({
    ...shared(format),
    name: `linear_turned_${format}`,
    summary: 'linear_normed of q, k and v of one row, and rope_kv_append of pairs of neighbours',
    arguments: [...inputs(format), ...headSizes, ...sizes, f32('eps')],
    tolerance: exact('the very bits of linear_normed, bias_add and rope_kv_append'),
  });

/** Heads of any pairs, which may be normalized first. `arrivals`: zeros, and so again behind it. */
export const linearHeaded = (format: FragmentFormat) =>
  defineKernel({
    ...shared(format),
    name: `linear_headed_${format}`,
    summary: 'linear_normed of q, k and v of one row, and what turns each head once it is complete',
    arguments: [
      ...inputs(format),
      aligned(16, input('query_weight', 'f32', 'head_dim')),
      aligned(16, input('key_weight', 'f32', 'head_dim')),
      inout('arrivals', 'i32', 'heads + kv_heads'),
      ...headSizes,
      i32('adjacent'),
      ...sizes,
      i32('normed'),
      f32('eps'),
      f32('head_eps'),
    ],
    tolerance: exact('the very bits of linear_normed, bias_add and rope_kv_append or norm_rope_kv_append'),
  });

/** What q, k and v of one row are turned with where they are computed, and where they go. */
export interface TurnedHeads {
  readonly values: Pick<
    ValuesOf<ReturnType<typeof linearHeaded>>,
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
    | 'adjacent'
  >;
  /** Undefined: heads are not normalized. */
  readonly norms:
    | { readonly query_weight: DeviceBuffer; readonly key_weight: DeviceBuffer; readonly eps: number }
    | undefined;
  /** `[heads + kv_heads]` i32, zeros */
  readonly arrivals: DeviceBuffer;
  readonly dims: Readonly<Record<string, number>>;
}

/** Whether heads of such a size are computed by whole groups, and turned by whole units. */
export const canTurnHeads = (headDim: number, rotary: number): boolean =>
  headDim % LINEAR_ONE_ROWS === 0 && rotary % 8 === 0;

/** A matrix of q, k and v, or one of theirs, of one row: see {@link linearTurned} and {@link linearHeaded}. */
export function launchLinearHeads(
  plan: LaunchPlanRecorder,
  format: FragmentFormat,
  own: Omit<ValuesOf<ReturnType<typeof linearTurned>>, Exclude<keyof TurnedHeads['values'], 'adjacent'>>,
  { values, norms, arrivals, dims }: TurnedHeads,
  own_dims: Readonly<Record<string, number>>,
  when: LaunchCondition,
): void {
  const { adjacent, ...turned } = values;
  const sizes = { ...dims, ...own_dims };
  if (adjacent === 1 && norms === undefined) {
    plan.launch(linearTurned(format), { ...own, ...turned }, sizes, when);
    return;
  }
  const { query_weight, key_weight, eps: head_eps } = norms ?? { query_weight: own.norm, key_weight: own.norm, eps: 0 };
  plan.launch(
    linearHeaded(format),
    { ...own, ...values, arrivals, query_weight, key_weight, normed: norms === undefined ? 0 : 1, head_eps },
    sizes,
    when,
  );
}

export const linearHeadsContracts: readonly KernelContract[] = FRAGMENT_FORMATS.flatMap((format) => [
  linearTurned(format),
  linearHeaded(format),
]);
