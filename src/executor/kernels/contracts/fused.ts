import { aligned, defineKernel, f32, i32, input, type KernelContract, output } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { exact, stored } from '../tolerance.js';
import { rmsNorm, swiglu } from './forward.js';
import { Q8_BLOCK, Q8_BLOCK_BYTES } from './quantized.js';

/** Types of the activations that matrix units multiply. */
export type HalfType = 'f16' | 'bf16';

const normed = [aligned(16, input('x', 'f32', 'rows', 'hidden')), input('weight', 'f32', 'hidden')] as const;
const normSizes = [i32('hidden'), f32('eps')] as const;
const gateUp = input('gate_up', 'f32', 'rows', '2', 'ffn');

/** Dimension `blocks`: hidden / 32. */
export const rmsNormQuantize = defineKernel({
  name: 'rms_norm_quantize',
  source: 'rms_norm_quantize.hip',
  on: 'gpu',
  summary: 'rms_norm, then quantize_q8',
  arguments: [...normed, aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)), ...normSizes],
  grid: [{ of: 'rows' }],
  multiples: [['hidden', `${Q8_BLOCK}`]],
  order: ORDER.row,
  tolerance: exact('the very bits of rms_norm and quantize_q8'),
});

export const rmsNormConvert = (type: HalfType) =>
  defineKernel({
    name: `rms_norm_convert_${type}`,
    source: 'rms_norm_convert.hip',
    on: 'gpu',
    summary: 'rms_norm, stored as 16-bit floats',
    arguments: [...normed, aligned(8, output('y', type, 'rows', 'hidden')), ...normSizes],
    grid: [{ of: 'rows' }],
    order: ORDER.row,
    tolerance: stored(type, rmsNorm.tolerance),
  });

/** Dimension `blocks`: ffn / 32. */
export const swigluQuantize = defineKernel({
  name: 'swiglu_quantize',
  source: 'swiglu_quantize.hip',
  on: 'gpu',
  summary: 'swiglu, then quantize_q8',
  arguments: [aligned(16, gateUp), aligned(4, output('y', 'u8', 'rows', 'blocks', `${Q8_BLOCK_BYTES}`)), i32('ffn')],
  grid: [{ of: 'ffn', per: 1024 }, { of: 'rows' }],
  multiples: [['ffn', `${Q8_BLOCK}`]],
  tolerance: exact('the very bits of swiglu and quantize_q8'),
});

export const swigluConvert = (type: HalfType) =>
  defineKernel({
    name: `swiglu_convert_${type}`,
    source: 'swiglu_convert.hip',
    on: 'gpu',
    summary: 'swiglu, stored as 16-bit floats',
    arguments: [gateUp, aligned(8, output('y', type, 'rows', 'ffn')), i32('ffn')],
    grid: [{ of: 'ffn', per: 1024 }, { of: 'rows' }],
    tolerance: stored(type, swiglu.tolerance),
  });

/** Small kernels that write what the next matrix product reads. */
export const fusedContracts: readonly KernelContract[] = [
  rmsNormQuantize,
  rmsNormConvert('f16'),
  rmsNormConvert('bf16'),
  swigluQuantize,
  swigluConvert('f16'),
  swigluConvert('bf16'),
];
