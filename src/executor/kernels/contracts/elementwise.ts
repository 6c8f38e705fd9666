import { defineKernel, f32, i32, inout, input, type KernelContract, output } from '../contract.js';
import { ORDER } from '../reduction-order.js';
import { elementwise, exact, roundings, stored } from '../tolerance.js';
import { type FloatType, rmsNorm } from './forward.js';

const scoresOf = (type: FloatType) => inout('scores', type, 'rows', 'heads', 'columns');

export const scale = (type: FloatType) =>
  defineKernel({
    name: `scale_${type}`,
    source: type === 'f32' ? 'scale.hip' : 'twins/scale_f16.hip',
    summary: 'x *= factor',
    arguments: [inout('x', type, 'rows', 'columns'), i32('columns'), f32('factor')],
    grid: [{ of: 'rows' }],
    tolerance: exact('one rounding, to f32 and, in f16, one more, as in the reference'),
  });

export const mask = (type: FloatType) =>
  defineKernel({
    name: `mask_${type}`,
    source: type === 'f32' ? 'mask.hip' : 'twins/mask_f16.hip',
    summary: 'scores[r][h][c] = value for each column past the row’s position',
    arguments: [scoresOf(type), input('row_position', 'i32', 'rows'), i32('heads'), i32('columns'), f32('value')],
    grid: [{ of: 'heads' }, { of: 'rows' }],
    tolerance: exact('values are moved, not computed'),
  });

export const causalMask = (type: FloatType) =>
  defineKernel({
    name: `causal_mask_${type}`,
    source: 'twins/causal_mask.hip',
    summary: 'scores[r][h][c] = value for each column c > r + past',
    arguments: [scoresOf(type), i32('heads'), i32('columns'), i32('past'), f32('value')],
    grid: [{ of: 'heads' }, { of: 'rows' }],
    tolerance: exact('values are moved, not computed'),
  });

export const softmax = (type: FloatType) =>
  defineKernel({
    name: `softmax_${type}`,
    source: type === 'f32' ? 'softmax.hip' : 'twins/softmax_f16.hip',
    summary: 'y = e^(x - max x) / sum e^(x - max x); a row of -inf gives 0',
    arguments: [input('x', type, 'rows', 'columns'), output('y', type, 'rows', 'columns'), i32('columns')],
    grid: [{ of: 'rows' }],
    inPlace: [['x', 'y']],
    order: ORDER.row,
    tolerance: stored(
      type,
      roundings(
        '(columns / 8 + 280) · 2⁻²⁴ · |reference|: the difference from the largest, up to 87, is rounded once, which ' +
          'e^x passes on 87-fold, twice; sums of positive terms, 8 or more at a time',
        ({ columns }) => columns! / 8 + 280,
      ),
    ),
  });

export const argmax = defineKernel({
  name: 'argmax',
  source: 'twins/argmax.hip',
  summary: 'index[r] = the column of the row’s largest element; ties to the lower column',
  arguments: [input('x', 'f32', 'rows', 'columns'), output('index', 'i32', 'rows'), i32('columns')],
  grid: [{ of: 'rows' }],
  tolerance: exact('elements are compared, not computed'),
});

export const biasAdd = defineKernel({
  name: 'bias_add',
  source: 'bias_add.hip',
  summary: 'y[t][n] += bias[n]',
  arguments: [inout('y', 'f32', 'rows', 'out'), input('bias', 'f32', 'out'), i32('out')],
  grid: [{ of: 'rows' }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

export const swigluF16 = defineKernel({
  name: 'swiglu_f16',
  source: 'twins/swiglu_f16.hip',
  summary: 'y = silu(gate) * up',
  arguments: [input('gate_up', 'f16', 'rows', '2', 'ffn'), output('y', 'f16', 'rows', 'ffn'), i32('ffn')],
  grid: [{ of: 'rows' }],
  tolerance: stored('f16', elementwise),
});

export const rmsNormF16 = defineKernel({
  name: 'rms_norm_f16',
  source: 'twins/rms_norm_f16.hip',
  summary: rmsNorm.summary,
  arguments: [
    input('x', 'f16', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    output('y', 'f16', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  inPlace: [['x', 'y']],
  order: ORDER.row,
  tolerance: stored('f16', rmsNorm.tolerance),
});

export const rmsNormResidual = defineKernel({
  name: 'rms_norm_residual',
  source: 'twins/rms_norm_residual.hip',
  summary: 'x += delta, then y = x / sqrt(mean(x²) + eps) * weight',
  arguments: [
    inout('x', 'f32', 'rows', 'hidden'),
    input('delta', 'f32', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    output('y', 'f32', 'rows', 'hidden'),
    i32('hidden'),
    f32('eps'),
  ],
  grid: [{ of: 'rows' }],
  order: ORDER.row,
  tolerance: rmsNorm.tolerance,
});

/** Kernels on single elements and single rows that the forward pass does not launch itself. */
export const elementwiseContracts: readonly KernelContract[] = [
  scale('f32'),
  scale('f16'),
  mask('f32'),
  mask('f16'),
  causalMask('f32'),
  causalMask('f16'),
  softmax('f32'),
  softmax('f16'),
  argmax,
  biasAdd,
  swigluF16,
  rmsNormF16,
  rmsNormResidual,
];
