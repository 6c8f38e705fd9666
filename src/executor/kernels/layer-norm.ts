import { defineKernel, f32, i32, input, type KernelContract, output } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';

export const layerNorm = defineKernel({
  name: 'layer_norm',
  source: 'layer_norm.hip',
  summary: 'y = (x - mean(x)) / sqrt(mean((x - mean(x))²) + eps) * weight + bias',
  arguments: [
    input('x', 'f32', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    input('bias', 'f32', 'hidden'),
    output('y', 'f32', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  inPlace: [['x', 'y']],
  order: ORDER.row,
  tolerance: roundings(
    '(hidden / 8 + 16) · 2⁻²⁴ · (|weight| + |reference|) · (|x| + mean |x|) / deviation: sums of up to hidden terms, taken 8 ' +
      'or more at a time; an error of the mean passes into every difference from it, and into their deviation',
    ({ hidden }) => hidden! / 8 + 16,
  ),
});

export const layerNormContracts: readonly KernelContract[] = [layerNorm];
