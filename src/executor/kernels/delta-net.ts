import {
  defineKernel,
  f32,
  i32,
  inout,
  input,
  type KernelContract,
  output,
  rowsApart,
  variants,
} from '../device/contract.js';
import { elementwise, moved, roundings } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';

/** Sizes of a head's state that kernels are built for. */
export const DELTA_DIMS: readonly number[] = [32, 128];
/** Rows that the convolution sees, a row's own included. */
export const DELTA_TAPS = 4;
/** Rows of a head's state that a block takes. */
export const DELTA_PART = 32;
/**
 * Words of a slice: first row, rows, the state that it continues from, the state that it writes, after how many of its rows,
 * the number of replay rows before it, and the first of those. `StateSlice` of kernels/forge/delta.h says what they mean.
 */
export const SLICE_WORDS = 7;
/** No state: before a slice that begins a sequence, all zero; or none that is written. */
export const NO_STATE = -1;
/** Columns of a replay row that one block writes. */
export const REPLAY_PART = 256;
/** Elements of a replay row of a delta net. */
const REPLAY_COLUMNS = '2 * ((2 * key_heads + value_heads) * dim + value_heads)';
/** Rows of a step whose inputs are kept, and their replay rows. */
export const keptIndex = input('index', 'i32', 'kept', '2');

export const splitQueryGates = defineKernel({
  name: 'split_query_gates',
  source: 'split_query_gates.hip',
  summary: 'q, k and v side by side, and the gates that each head of q brings behind it',
  arguments: [
    input('gated', 'f32', 'rows', '2 * heads + 2 * kv_heads', 'head_dim'),
    output('qkv', 'f32', 'rows', 'heads + 2 * kv_heads', 'head_dim'),
    output('gate', 'f32', 'rows', 'heads', 'head_dim'),
    i32('heads'),
    i32('kv_heads'),
    i32('head_dim'),
  ],
  grid: [{ of: 'rows' }],
  tolerance: moved,
});

export const sigmoidGate = defineKernel({
  name: 'sigmoid_gate',
  source: 'sigmoid_gate.hip',
  summary: 'y *= sigmoid(gate)',
  arguments: [inout('y', 'f32', 'rows', 'columns'), input('gate', 'f32', 'rows', 'columns'), i32('columns')],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

export const deltaConv = defineKernel({
  name: 'delta_conv',
  source: 'delta_conv.hip',
  summary: 'y = silu(sum_j weight[j] * x[t - 3 + j]), each head of q and k divided by its length',
  arguments: [
    rowsApart('x_stride', input('x', 'f32', 'rows', '(2 * key_heads + value_heads) * dim')),
    input('weight', 'f32', '(2 * key_heads + value_heads) * dim', `${DELTA_TAPS}`),
    inout('kept', 'f32', 'states', `${DELTA_TAPS - 1}`, '(2 * key_heads + value_heads) * dim'),
    input('replay', 'f32', 'replay_rows', REPLAY_COLUMNS),
    input('row_slice', 'i32', 'rows'),
    input('slices', 'i32', 'slices', `${SLICE_WORDS}`),
    output('y', 'f32', 'rows', '(2 * key_heads + value_heads) * dim'),
    i32('key_heads'),
    i32('value_heads'),
    i32('dim'),
    i32('x_stride'),
    f32('eps'),
  ],
  grid: [{ of: '2 * key_heads + value_heads', per: 'waves' }, { of: 'rows' }],
  order: `${ORDER.rising} over the rows; lengths: ${ORDER.dot}`,
  tolerance: roundings(
    '(dim / 8 + 40) · 2⁻²⁴ · what the reference names: four products, silu of their sum, and the length of the head',
    (sizes) => sizes.dim! / 8 + 40,
  ),
});

/**
 * Gated delta net with states of `dim` rows and columns; Yang, Kautz & Hatamizadeh (2025). `grouped`: the value heads of a key head
 * follow each other, and their betas stand before their alphas, `[rows, key_heads, 2, value_heads / key_heads]`.
 */
export const deltaNet = variants((dim: number) =>
  defineKernel({
    name: `delta_net_d${dim}`,
    source: 'delta_net.hip',
    summary: 'state *= decay; state += k ⊗ beta (v - state k); y = state q / √dim; a row after the other',
    arguments: [
      input('qkv', 'f32', 'rows', '2 * key_heads + value_heads', `${dim}`),
      rowsApart('gate_stride', input('beta', 'f32', 'rows', 'value_heads')),
      rowsApart('gate_stride', input('alpha', 'f32', 'rows', 'value_heads')),
      input('rate', 'f32', 'value_heads'),
      input('bias', 'f32', 'value_heads'),
      inout('states', 'f32', 'states', 'value_heads', `${dim}`, `${dim}`),
      input('replay', 'f32', 'replay_rows', REPLAY_COLUMNS.replace('dim', `${dim}`)),
      input('slices', 'i32', 'slices', `${SLICE_WORDS}`),
      output('y', 'f32', 'rows', 'value_heads', `${dim}`),
      i32('key_heads'),
      i32('value_heads'),
      i32('gate_stride'),
      i32('grouped'),
    ],
    grid: [{ of: `${dim}`, per: DELTA_PART }, { of: 'value_heads' }, { of: 'slices' }],
    order: `${ORDER.dot}; rows one after the other`,
    tolerance: roundings(
      `(${dim} / 8 + 40) · (rows + 1) · 2⁻²⁴ · what the reference names: dot products of ${dim}, once a row`,
      ({ rows }) => (dim / 8 + 40) * (rows! + 1),
    ),
  }),
);

export const keepDeltaRows = defineKernel({
  name: 'keep_delta_rows',
  source: 'keep_delta_rows.hip',
  summary: 'the inputs of rows with draft tokens, for the slice after them',
  arguments: [
    rowsApart('x_stride', input('x', 'f32', 'rows', '(2 * key_heads + value_heads) * dim')),
    input('qkv', 'f32', 'rows', '(2 * key_heads + value_heads) * dim'),
    rowsApart('x_stride', input('beta', 'f32', 'rows', 'value_heads')),
    rowsApart('x_stride', input('alpha', 'f32', 'rows', 'value_heads')),
    keptIndex,
    inout('replay', 'f32', 'replay_rows', REPLAY_COLUMNS),
    i32('key_heads'),
    i32('value_heads'),
    i32('dim'),
    i32('x_stride'),
  ],
  grid: [{ of: REPLAY_COLUMNS, per: REPLAY_PART }, { of: 'kept' }],
  tolerance: moved,
});

export const gatedNorm = defineKernel({
  name: 'gated_norm',
  source: 'gated_norm.hip',
  summary: 'x / sqrt(mean(x²) + eps) * weight * silu(gate), for each head by itself, in place',
  arguments: [
    inout('x', 'f32', 'rows', 'heads', 'dim'),
    rowsApart('gate_stride', input('gate', 'f32', 'rows', 'heads * dim')),
    input('weight', 'f32', 'dim'),
    i32('heads'),
    i32('dim'),
    i32('gate_stride'),
    f32('eps'),
  ],
  grid: [{ of: 'heads', per: 'waves' }, { of: 'rows' }],
  order: ORDER.dot,
  tolerance: roundings(
    '(dim / 8 + 30) · 2⁻²⁴ · |reference|: as head_norm, and silu within 4 roundings',
    (sizes) => sizes.dim! / 8 + 30,
  ),
});

export const deltaNetContracts: readonly KernelContract[] = [
  splitQueryGates,
  sigmoidGate,
  deltaConv,
  ...DELTA_DIMS.map(deltaNet),
  keepDeltaRows,
  gatedNorm,
];
