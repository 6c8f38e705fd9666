import { aligned, defineKernel, f32, i32, inout, input, type KernelContract, output } from '../device/contract.js';
import { exact } from '../device/tolerance.js';
import { saturatedCount } from './columns.js';
import { MOST_USED_EXPERTS, routeExperts, routerScores } from './experts.js';
import {
  FRAGMENT_CHUNK,
  FRAGMENT_FORMATS,
  FRAGMENT_TILE_ROWS,
  type FragmentFormat,
  fragmentInput,
  fragmentWeight,
} from './fragments.js';
import { fitsRow, LINEAR_ONE_BATCH, LINEAR_ONE_CHUNKS, LINEAR_SEGMENTS } from './linear-one.js';
import { ORDER } from './reduction-order.js';

/** Rows of each matrix that a block has. */
const ROWS = 16;
/** Blocks that score a row's experts together, and the most elements of it that each has room for. */
export const ROUTE_BLOCKS = 8;
export const ROUTE_MOST_HIDDEN = 8192;
/** Fewer experts of a row than this leave the waves of a block, of which each has one, without work. */
const FEWEST_USED = 4;

/** What experts of one row are of. */
export interface ExpertSizes {
  readonly hidden: number;
  readonly ffn: number;
  readonly used: number;
}

/** Whether {@link expertsSwiglu} and {@link expertsSummed} take experts of such formats: gate and up, then down. */
export const fitsExperts = (
  gateUp: FragmentFormat,
  down: FragmentFormat,
  { hidden, ffn, used }: ExpertSizes,
): boolean =>
  hidden <= ROUTE_MOST_HIDDEN &&
  fitsRow(gateUp, hidden) &&
  fragmentInput(gateUp) === fragmentInput(down) &&
  ffn % FRAGMENT_TILE_ROWS === 0 &&
  ffn <= LINEAR_ONE_CHUNKS * FRAGMENT_CHUNK &&
  used >= FEWEST_USED &&
  used <= MOST_USED_EXPERTS;

/** Dimension `parts`: {@link normParts} of `in`. */
export const routeNormed = defineKernel({
  name: 'route_normed',
  source: 'experts_one.hip',
  on: 'hopper',
  summary: 'the `used` experts of the highest score of one row’s norm, by id, and their weights',
  arguments: [
    input('weight', 'f32', 'experts', 'in'),
    aligned(16, input('x', 'f32', 'in')),
    aligned(16, input('norm', 'f32', 'in')),
    input('parts', 'f32', 'parts'),
    input('bias', 'f32', 'experts'),
    output('ids', 'i32', 'used'),
    output('weights', 'f32', 'used'),
    i32('experts'),
    i32('in'),
    i32('used'),
    i32('scoring'),
    i32('normalizes'),
    f32('eps'),
    f32('scale'),
  ],
  grid: [{ of: `${ROUTE_BLOCKS}` }],
  multiples: [['in', '4']],
  order: `${routerScores.order}; ${routeExperts.order}`,
  tolerance: exact('the very bits of rms_norm, router_scores and route_experts'),
});

/** Dimensions `tiles` and `chunks`: of gate and of up of an expert; `parts`: {@link normParts} of `hidden`. */
export const expertsSwiglu = (format: FragmentFormat) =>
  defineKernel({
    name: `experts_swiglu_${format}`,
    source: 'experts_one.hip',
    on: 'hopper',
    summary: 'y[i][n] = silu(gate[n] · norm(x)) * (up[n] · norm(x)) of each expert that the row is sent to',
    arguments: [
      fragmentWeight(format, 'experts', '2', 'tiles'),
      aligned(16, input('x', 'f32', 'hidden')),
      aligned(16, input('norm', 'f32', 'hidden')),
      input('parts', 'f32', 'parts'),
      input('ids', 'i32', 'used'),
      aligned(16, output('y', fragmentInput(format), 'used', 'ffn')),
      saturatedCount,
      i32('ffn'),
      i32('hidden'),
      f32('eps'),
    ],
    grid: [{ of: 'ffn', per: ROWS }, { of: 'used' }],
    multiples: [
      ['hidden', `${LINEAR_SEGMENTS * LINEAR_ONE_BATCH[format] * FRAGMENT_CHUNK}`],
      ['ffn', `${FRAGMENT_TILE_ROWS}`],
    ],
    order: ORDER.halves,
    tolerance: exact('the very bits of rms_norm, linear_experts and swiglu_sent_columns'),
  });

/** Dimensions `tiles` and `chunks`: of down of an expert; `parts`: {@link normParts} of `out`. */
export const expertsSummed = (format: FragmentFormat) =>
  defineKernel({
    name: `experts_summed_${format}`,
    source: 'experts_one.hip',
    on: 'hopper',
    summary: 'y[n] += sum_i shares[i] * (sum_k weight[n][k] * x[i][k]) over experts, and the sums of the squares of y',
    arguments: [
      fragmentWeight(format, 'experts', 'tiles'),
      aligned(16, input('x', fragmentInput(format), 'used', 'in')),
      input('ids', 'i32', 'used'),
      input('shares', 'f32', 'used'),
      inout('y', 'f32', 'out'),
      output('parts', 'f32', 'parts'),
      i32('out'),
      i32('in'),
      i32('used'),
    ],
    grid: [{ of: 'out', per: ROWS }],
    multiples: [['in', `${FRAGMENT_CHUNK}`]],
    order: `${ORDER.halves}; over experts in rising order of ids`,
    tolerance: exact('the very bits of linear_experts and combine_experts, and of the sums of rms_norm'),
  });

export const expertsOneContracts: readonly KernelContract[] = [
  routeNormed,
  ...FRAGMENT_FORMATS.flatMap((format) => [expertsSwiglu(format), expertsSummed(format)]),
];
