import {
  aligned,
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
import { elementwise, exact, roundings, stored } from '../device/tolerance.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES, TILE_TYPES, type TileType } from './formats.js';
import { ORDER } from './reduction-order.js';

/** Elements of a row that one block writes. */
export const SWIGLU_PART = 1024;
export const ACTIVATION_GRID = [{ of: 'rows' }, { of: 'ffn', per: SWIGLU_PART }] as const;
const PARTS = [{ of: 'ffn', per: SWIGLU_PART }, { of: 'rows' }] as const;

export const swiglu = defineKernel({
  name: 'swiglu',
  source: 'swiglu.hip',
  summary: 'y = silu(gate) * up',
  arguments: [input('gate_up', 'f32', 'rows', '2', 'ffn'), output('y', 'f32', 'rows', 'ffn'), i32('ffn')],
  grid: ACTIVATION_GRID,
  tolerance: elementwise,
});

export const geglu = defineKernel({
  name: 'geglu',
  source: 'geglu.hip',
  summary: 'y = gelu(gate) * up, gelu in its form with tanh',
  arguments: swiglu.arguments,
  grid: ACTIVATION_GRID,
  tolerance: elementwise,
});

/** Gates of the largest values of a row alone, as Gemma 3n's first layers have; You et al., "Spark Transformer" (2025). */
export const sparseGeglu = defineKernel({
  name: 'sparse_geglu',
  source: 'sparse_geglu.hip',
  summary: 'y = gelu(max(gate - cutoff, 0)) * up, cutoff = mean(gate) + deviations · deviation(gate)',
  arguments: [...swiglu.arguments, f32('deviations')],
  grid: [{ of: 'rows' }],
  order: ORDER.row,
  tolerance: roundings(
    '(ffn / 8 + 32) · 2⁻²⁴ · |up| · (|gate| + (1 + |deviations|) · √mean(gate²)): sums taken 8 or more at a time, and gelu',
    ({ ffn }) => ffn! / 8 + 32,
  ),
});

/** Activation of an MLP without a gate; So et al. (2021). */
export const reluSquared = defineKernel({
  name: 'relu_squared',
  source: 'relu_squared.hip',
  summary: 'y = max(y, 0)²',
  arguments: [inout('y', 'f32', 'rows', 'columns'), i32('columns')],
  grid: [{ of: 'rows' }, { of: 'columns', per: SWIGLU_PART }],
  tolerance: elementwise,
});

/** Activation of an MLP without a gate; Hendrycks & Gimpel (2016). */
export const gelu = defineKernel({
  name: 'gelu',
  source: 'gelu.hip',
  summary: 'y = gelu(y), in its form with tanh',
  arguments: reluSquared.arguments,
  grid: reluSquared.grid,
  tolerance: elementwise,
});

/** Activation of Apertus; Huang & Schlag, "Deriving Activation Functions Using Integration" (2024). */
export const xielu = defineKernel({
  name: 'xielu',
  source: 'xielu.hip',
  summary: 'y = alpha_p · y² + beta · y above 0, alpha_n · (e^min(y, eps) - 1 - y) + beta · y below',
  arguments: [
    inout('y', 'f32', 'rows', 'columns'),
    i32('columns'),
    f32('alpha_n'),
    f32('alpha_p'),
    f32('beta'),
    f32('eps'),
  ],
  grid: reluSquared.grid,
  tolerance: elementwise,
});

export const geluGate = defineKernel({
  name: 'gelu_gate',
  source: 'gelu_gate.hip',
  summary: 'y = gelu(y) * x, gelu in its form with tanh',
  arguments: [
    inout('y', 'f32', 'rows', 'columns'),
    rowsApart('x_stride', input('x', 'f32', 'rows', 'columns')),
    i32('columns'),
    i32('x_stride'),
  ],
  grid: [{ of: 'rows' }],
  tolerance: elementwise,
});

const gateUp = input('gate_up', 'f32', 'rows', '2', 'ffn');

/** Dimension `blocks`: ffn / 32. */
export const swigluQuantize = defineKernel({
  name: 'swiglu_quantize',
  source: 'swiglu_quantize.hip',
  on: 'portable',
  summary: 'swiglu, then quantize_q8',
  arguments: [aligned(16, gateUp), aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)), i32('ffn')],
  grid: PARTS,
  multiples: [['ffn', `${Q8_BLOCK}`]],
  tolerance: exact('the very bits of swiglu and quantize_q8'),
});

export const swigluConvert = variants((type: TileType) =>
  defineKernel({
    name: `swiglu_convert_${type}`,
    source: 'swiglu_convert.hip',
    on: 'portable',
    summary: 'swiglu, stored as 16-bit floats',
    arguments: [gateUp, aligned(8, output('y', type, 'rows', 'ffn')), i32('ffn')],
    grid: PARTS,
    tolerance: stored(type, swiglu.tolerance),
  }),
);

export const swigluF16 = defineKernel({
  name: 'swiglu_f16',
  source: 'twins/swiglu_f16.hip',
  summary: 'y = silu(gate) * up',
  arguments: [input('gate_up', 'f16', 'rows', '2', 'ffn'), output('y', 'f16', 'rows', 'ffn'), i32('ffn')],
  grid: ACTIVATION_GRID,
  tolerance: stored('f16', elementwise),
});

export const swigluContracts: readonly KernelContract[] = [
  swiglu,
  geglu,
  sparseGeglu,
  geluGate,
  reluSquared,
  gelu,
  xielu,
  swigluQuantize,
  ...TILE_TYPES.map(swigluConvert),
  swigluF16,
];
