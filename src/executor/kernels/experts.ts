import { defineKernel, f32, i32, inout, input, type KernelContract, output, rowsApart } from '../device/contract.js';
import { elementwise, exact, roundings } from '../device/tolerance.js';
import { matmul } from './matmul.js';
import { ORDER } from './reduction-order.js';
import { ACTIVATION_GRID, SWIGLU_PART } from './swiglu.js';

/** The most experts that a layer has, and that a row is sent to. */
export const MOST_EXPERTS = 512;
export const MOST_USED_EXPERTS = 32;
/** The most groups that a layer's experts are in. */
export const MOST_EXPERT_GROUPS = 64;

/** Function applied to a score: softmax over all, sigmoid, or softmax over the chosen. */
export const ROUTE_SOFTMAX = 0;
export const ROUTE_SIGMOID = 1;
export const ROUTE_CHOSEN = 2;

/** Words of a run of rows: expert, first place, rows. */
export const RUN_WORDS = 3;

/** {@link matmul} of a router in F32, with a wave a row and expert: its rows are too few for a block of them each. */
export const routerScores = defineKernel({
  name: 'router_scores',
  source: 'router_scores.hip',
  on: 'gpu',
  summary: 'y[t][e] = sum_k weight[e][k] * x[t][k]',
  arguments: [
    input('weight', 'f32', 'experts', 'in'),
    input('x', 'f32', 'rows', 'in'),
    output('y', 'f32', 'rows', 'experts'),
    i32('experts'),
    i32('in'),
  ],
  grid: [{ of: 'experts', per: 'waves' }, { of: 'rows' }],
  order: ORDER.dot,
  tolerance: matmul('f32').tolerance,
});

export const routeExperts = defineKernel({
  name: 'route_experts',
  source: 'route_experts.hip',
  summary: 'the `used` experts of the highest score in the best groups, by id, and their weights',
  arguments: [
    input('scores', 'f32', 'rows', 'experts'),
    input('bias', 'f32', 'experts'),
    output('ids', 'i32', 'rows', 'used'),
    output('weights', 'f32', 'rows', 'used'),
    i32('experts'),
    i32('used'),
    i32('scoring'),
    i32('normalizes'),
    i32('groups'),
    i32('used_groups'),
    f32('scale'),
  ],
  grid: [{ of: 'rows' }],
  multiples: [['experts', 'groups']],
  order: `${ORDER.row}; over the chosen in ascending order of ids`,
  tolerance: roundings(
    '(experts + 20) · 2⁻²⁴ · |weight|: a sum over all experts or the chosen, exponentials within 2 ulp',
    ({ experts }) => experts! + 20,
  ),
});

export const groupByExpert = defineKernel({
  name: 'group_by_expert',
  source: 'group_by_expert.hip',
  summary: 'places of rows, sorted by the experts that they are sent to; the run of places of each expert',
  arguments: [
    input('ids', 'i32', 'rows', 'used'),
    input('tokens', 'i32', '1'),
    output('runs', 'i32', 'experts', `${RUN_WORDS}`),
    inout('row_of', 'i32', 'places'),
    inout('place_of', 'i32', 'rows', 'used'),
    i32('experts'),
    i32('used'),
    i32('align'),
  ],
  grid: [{ of: 'experts' }],
  offsets32: ['rows * used'],
  tolerance: exact('whole numbers'),
});

/** Elements of a row that one block combines. */
export const COMBINE_PART = 256;

export const combineExperts = defineKernel({
  name: 'combine_experts',
  source: 'combine_experts.hip',
  summary: 'x[t] (+)= sum_i weights[t][i] * y[place_of[t][i]]',
  arguments: [
    input('y', 'f32', 'places', 'hidden'),
    input('place_of', 'i32', 'rows', 'used'),
    input('weights', 'f32', 'rows', 'used'),
    inout('x', 'f32', 'rows', 'hidden'),
    input('tokens', 'i32', '1'),
    i32('hidden'),
    i32('used'),
    i32('accumulate'),
  ],
  grid: [{ of: 'hidden', per: COMBINE_PART }, { of: 'rows' }],
  offsets32: ['rows * used'],
  order: ORDER.rising,
  tolerance: roundings('(used + 1) · 2⁻²⁴ · (sum |weight · y| + |x|): one chain', ({ used }) => used! + 1),
});

export const biasAddExperts = defineKernel({
  name: 'bias_add_experts',
  source: 'bias_add_experts.hip',
  summary: 'y[place_of[t][i]][n] += bias[ids[t][i]][n]',
  arguments: [
    rowsApart('y_stride', inout('y', 'f32', 'places', 'out')),
    input('bias', 'f32', 'experts', 'out'),
    input('ids', 'i32', 'rows', 'used'),
    input('place_of', 'i32', 'rows', 'used'),
    input('tokens', 'i32', '1'),
    i32('out'),
    i32('y_stride'),
    i32('used'),
  ],
  grid: [{ of: 'pairs' }, { of: 'out', per: SWIGLU_PART }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

export const scaleExperts = defineKernel({
  name: 'scale_experts',
  source: 'scale_experts.hip',
  summary: 'weights[t][i] *= scale[ids[t][i]]',
  arguments: [
    inout('weights', 'f32', 'rows', 'used'),
    input('ids', 'i32', 'rows', 'used'),
    input('scale', 'f32', 'experts'),
    i32('used'),
  ],
  grid: [{ of: 'rows' }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

/** Constants of {@link swigluClamped} in gpt-oss; no file stores them. */
export const CLAMPED_ALPHA = 1.702;
export const CLAMPED_LIMIT = 7;
/** Both, as arguments. */
export const CLAMP = { alpha: CLAMPED_ALPHA, limit: CLAMPED_LIMIT };

export const swigluClamped = defineKernel({
  name: 'swiglu_clamped',
  source: 'swiglu_clamped.hip',
  summary: 'y = gate · sigmoid(alpha · gate) · (up + 1), the gate at most limit, up from -limit to limit',
  arguments: [
    input('gate_up', 'f32', 'rows', '2', 'ffn'),
    output('y', 'f32', 'rows', 'ffn'),
    i32('ffn'),
    f32('alpha'),
    f32('limit'),
  ],
  grid: ACTIVATION_GRID,
  tolerance: elementwise,
});

export const gateRows = defineKernel({
  name: 'gate_rows',
  source: 'gate_rows.hip',
  summary: 'y[t] *= sigmoid(gate[t])',
  arguments: [inout('y', 'f32', 'rows', 'columns'), input('gate', 'f32', 'rows'), i32('columns')],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

export const expertsContracts: readonly KernelContract[] = [
  routerScores,
  routeExperts,
  groupByExpert,
  combineExperts,
  biasAddExperts,
  scaleExperts,
  swigluClamped,
  gateRows,
];
