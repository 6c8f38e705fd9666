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
} from '../../device/contract.js';
import { exact } from '../../device/tolerance.js';
import { MOST_USED_EXPERTS, routerScores } from '../experts.js';
import { ORDER } from '../reduction-order.js';
import { saturatedCount } from './columns.js';
import {
  FRAGMENT_CHUNK,
  FRAGMENT_FORMATS,
  FRAGMENT_TILE_ROWS,
  type FragmentFormat,
  fragmentInput,
  fragmentWeight,
} from './fragments.js';
import {
  fitsRow,
  LINEAR_DECODE_BATCH,
  LINEAR_DECODE_CHUNKS,
  LINEAR_DECODE_ROWS,
  LINEAR_SEGMENTS,
} from './linear-decode.js';

/** Experts that a block scores, the most elements of a row that it has room for, and the most experts to choose of. */
export const ROUTER_ROWS = 4;
export const ROUTER_MOST_HIDDEN = 8192;
export const ROUTER_MOST_EXPERTS = 256;
/** Fewer experts of a row than this leave the waves of a block, of which each has one, without work. */
const FEWEST_USED = 4;

/** Sizes of the experts of one row. */
export interface ExpertSizes {
  readonly hidden: number;
  readonly ffn: number;
  readonly experts: number;
  readonly used: number;
}

/** True if {@link expertsSwiglu} and {@link expertsSummed} take experts of such formats: gate and up, then down. */
export const fitsExperts = (
  gateUp: FragmentFormat,
  down: FragmentFormat,
  { hidden, ffn, experts, used }: ExpertSizes,
): boolean =>
  hidden <= ROUTER_MOST_HIDDEN &&
  experts <= ROUTER_MOST_EXPERTS &&
  hidden % (LINEAR_SEGMENTS * LINEAR_DECODE_BATCH[gateUp] * FRAGMENT_CHUNK) === 0 &&
  fitsRow(hidden) &&
  fragmentInput(gateUp) === fragmentInput(down) &&
  ffn % FRAGMENT_TILE_ROWS === 0 &&
  ffn <= LINEAR_DECODE_CHUNKS * FRAGMENT_CHUNK &&
  used >= FEWEST_USED &&
  used <= MOST_USED_EXPERTS;

/** Dimension `parts`: {@link normParts} of `in`. */
export const routerScoresNormed = defineKernel({
  name: 'router_scores_normed',
  source: 'hopper/experts_decode.hip',
  on: 'hopper',
  summary: 'y[e] = sum_k weight[e][k] * norm(x)[k] of one row',
  arguments: [
    input('weight', 'f32', 'experts', 'in'),
    aligned(16, input('x', 'f32', 'in')),
    aligned(16, input('norm', 'f32', 'in')),
    input('parts', 'f32', 'parts'),
    output('y', 'f32', 'experts'),
    i32('experts'),
    i32('in'),
    f32('eps'),
  ],
  grid: [{ of: 'experts', per: ROUTER_ROWS }],
  multiples: [['in', '4']],
  order: routerScores.order!,
  tolerance: exact('the very bits of rms_norm and router_scores'),
});

/** Parameters by which `route_experts` chooses. */
const scores = [input('scores', 'f32', 'experts'), input('bias', 'f32', 'experts')] as const;
const choice = [i32('experts'), i32('used'), i32('scoring'), i32('normalizes')] as const;

/** Dimensions `tiles` and `chunks`: of gate and of up of an expert; `parts`: {@link normParts} of `hidden`. */
export const expertsSwiglu = variants((format: FragmentFormat) =>
  defineKernel({
    name: `experts_swiglu_${format}`,
    source: 'hopper/experts_decode.hip',
    on: 'hopper',
    summary: 'y[i][n] = silu(gate[n] · norm(x)) * (up[n] · norm(x)) of each expert of the highest scores',
    arguments: [
      fragmentWeight(format, 'experts', '2', 'tiles'),
      aligned(16, input('x', 'f32', 'hidden')),
      aligned(16, input('norm', 'f32', 'hidden')),
      input('parts', 'f32', 'parts'),
      ...scores,
      aligned(16, output('y', fragmentInput(format), 'used', 'ffn')),
      saturatedCount,
      i32('ffn'),
      i32('hidden'),
      ...choice,
      f32('eps'),
      f32('scale'),
    ],
    grid: [{ of: 'ffn', per: LINEAR_DECODE_ROWS }, { of: 'used' }],
    multiples: [
      ['hidden', `${LINEAR_SEGMENTS * LINEAR_DECODE_BATCH[format] * FRAGMENT_CHUNK}`],
      ['ffn', `${FRAGMENT_TILE_ROWS}`],
    ],
    order: ORDER.halves,
    tolerance: exact('the very bits of route_experts, rms_norm, linear_experts and swiglu_sent_columns'),
  }),
);

/** Dimensions `tiles` and `chunks`: of down of an expert; `parts`: {@link normParts} of `out`. */
export const expertsSummed = variants((format: FragmentFormat) =>
  defineKernel({
    name: `experts_summed_${format}`,
    source: 'hopper/experts_decode.hip',
    on: 'hopper',
    summary:
      'y[n] += sum_i share[i] * (sum_k weight[n][k] * x[i][k]) over these experts, and the sums of the squares of y',
    arguments: [
      fragmentWeight(format, 'experts', 'tiles'),
      aligned(16, input('x', fragmentInput(format), 'used', 'in')),
      ...scores,
      inout('y', 'f32', 'out'),
      output('parts', 'f32', 'parts'),
      i32('out'),
      i32('in'),
      ...choice,
      f32('scale'),
    ],
    grid: [{ of: 'out', per: LINEAR_DECODE_ROWS }],
    multiples: [['in', `${FRAGMENT_CHUNK}`]],
    order: `${ORDER.halves}; over experts in ascending order of ids`,
    tolerance: exact('the very bits of route_experts, linear_experts and combine_experts, and of the sums of rms_norm'),
  }),
);

export const expertsOneContracts: readonly KernelContract[] = [
  routerScoresNormed,
  ...FRAGMENT_FORMATS.flatMap((format) => [expertsSwiglu(format), expertsSummed(format)]),
];
