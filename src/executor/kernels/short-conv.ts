import { defineKernel, i32, inout, input, type KernelContract, output } from '../device/contract.js';
import { elementwise, roundings } from '../device/tolerance.js';
import { keptIndex, REPLAY_PART, SLICE_WORDS } from './delta-net.js';
import { ORDER } from './reduction-order.js';

/** Columns of a row that one block of short_conv writes. */
export const SHORT_CONV_PART = 256;

/** Gated short convolution over the rows of a sequence; LFM2 (Liquid AI, 2025). */
export const shortConv = defineKernel({
  name: 'short_conv',
  source: 'short_conv.hip',
  summary: 'y = c * sum_j weight[j] * (b * x)[t - taps + 1 + j]',
  arguments: [
    input('gates', 'f32', 'rows', '3', 'columns'),
    input('weight', 'f32', 'columns', 'taps'),
    inout('kept', 'f32', 'states', 'taps - 1', 'columns'),
    input('replay', 'f32', 'replay_rows', 'columns'),
    input('row_slice', 'i32', 'rows'),
    input('slices', 'i32', 'slices', `${SLICE_WORDS}`),
    output('y', 'f32', 'rows', 'columns'),
    i32('columns'),
    i32('taps'),
  ],
  grid: [{ of: 'columns', per: SHORT_CONV_PART }, { of: 'rows' }],
  order: `${ORDER.rising} over the rows`,
  tolerance: roundings(
    '(taps + 3) · 2⁻²⁴ · |c| · sum |weight · b · x|: one chain of products',
    ({ taps }) => taps! + 3,
  ),
});

export const keepConvRows = defineKernel({
  name: 'keep_conv_rows',
  source: 'keep_conv_rows.hip',
  summary: 'the products b * x of rows with draft tokens, for the slice after them',
  arguments: [
    input('gates', 'f32', 'rows', '3', 'columns'),
    keptIndex,
    inout('replay', 'f32', 'replay_rows', 'columns'),
    i32('columns'),
  ],
  grid: [{ of: 'columns', per: REPLAY_PART }, { of: 'kept' }],
  tolerance: elementwise,
});

export const shortConvContracts: readonly KernelContract[] = [shortConv, keepConvRows];
