import {
  defineKernel,
  i32,
  inout,
  input,
  type KernelContract,
  output,
  rowsApart,
  variants,
} from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { DELTA_PART, SLICE_WORDS } from './delta-net.js';
import { ORDER } from './reduction-order.js';

/** Channels of a row that one block of causal_conv writes. */
export const CAUSAL_CONV_PART = 256;
/** Columns of a head's state that mamba_scan is built for. */
export const MAMBA_STATES: readonly number[] = [32, 64, 128, 256];
/** Rows of a head's state are a multiple of it: a wave takes as many at once, or fewer. */
export const MAMBA_ROWS = 8;

/** Convolution of each channel over the rows of a sequence; Mamba, Gu & Dao (2023). */
export const causalConv = defineKernel({
  name: 'causal_conv',
  source: 'causal_conv.hip',
  summary: 'y = silu(bias + sum_j weight[j] * x[t - taps + 1 + j])',
  arguments: [
    rowsApart('x_stride', input('x', 'f32', 'rows', 'channels')),
    input('weight', 'f32', 'channels', 'taps'),
    input('bias', 'f32', 'channels'),
    inout('kept', 'f32', 'states', 'taps - 1', 'channels'),
    input('row_slice', 'i32', 'rows'),
    input('slices', 'i32', 'slices', `${SLICE_WORDS}`),
    output('y', 'f32', 'rows', 'channels'),
    i32('channels'),
    i32('taps'),
    i32('x_stride'),
  ],
  grid: [{ of: 'channels', per: CAUSAL_CONV_PART }, { of: 'rows' }],
  order: `${ORDER.rising} over the rows`,
  tolerance: roundings(
    '(taps + 24) · 2⁻²⁴ · (|bias| + sum |weight · x|): one chain of products, and silu of it',
    ({ taps }) => taps! + 24,
  ),
});

/** Mamba 2 with states of `columns` columns; Dao & Gu (2024). */
export const mambaScan = variants((columns: number) =>
  defineKernel({
    name: `mamba_scan_n${columns}`,
    source: 'mamba_scan.hip',
    summary: 'state = e^(dt rate) state + dt x ⊗ b; y = (state c + skip x) silu(gate); a row after the other',
    arguments: [
      input('xbc', 'f32', 'rows', `heads * dim + 2 * groups * ${columns}`),
      rowsApart('stride', input('dt', 'f32', 'rows', 'heads')),
      rowsApart('stride', input('gate', 'f32', 'rows', 'heads * dim')),
      input('rate', 'f32', 'heads'),
      input('bias', 'f32', 'heads'),
      input('skip', 'f32', 'heads'),
      inout('states', 'f32', 'states', 'heads', 'dim', `${columns}`),
      input('slices', 'i32', 'slices', `${SLICE_WORDS}`),
      output('y', 'f32', 'rows', 'heads * dim'),
      i32('heads'),
      i32('dim'),
      i32('groups'),
      i32('stride'),
    ],
    grid: [{ of: 'dim', per: DELTA_PART }, { of: 'heads' }, { of: 'slices' }],
    multiples: [
      ['heads', 'groups'],
      ['dim', `${MAMBA_ROWS}`],
    ],
    order: `${ORDER.dot}; rows one after the other`,
    tolerance: roundings(
      `(${columns} / 8 + 40) · (rows + 1) · 2⁻²⁴ · what the reference names: dot products of ${columns}, once a row`,
      ({ rows }) => (columns / 8 + 40) * (rows! + 1),
    ),
  }),
);

export const mambaContracts: readonly KernelContract[] = [causalConv, ...MAMBA_STATES.map(mambaScan)];
