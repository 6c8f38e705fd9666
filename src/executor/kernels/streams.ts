import { defineKernel, f32, i32, inout, input, type KernelContract } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';
import { SWIGLU_PART } from './swiglu.js';

/** Streams of AltUp: the residual stream and three beside it; Baykal et al. (2023), in the form of Gemma 3n. */
export const ALTUP_STREAMS = 4;

/**
 * With `terms` 4 the streams before a layer become predictions; with 1 they are corrected by what the layer added to the first
 * of them, whose prediction is in `kept`.
 */
export const mixStreams = defineKernel({
  name: 'mix_streams',
  source: 'mix_streams.hip',
  summary: 'each of four streams += a mixture of all, or its share of x - kept; kept = x · weight',
  arguments: [
    inout('x', 'f32', 'rows', 'hidden'),
    inout('second', 'f32', 'rows', 'hidden'),
    inout('third', 'f32', 'rows', 'hidden'),
    inout('fourth', 'f32', 'rows', 'hidden'),
    inout('kept', 'f32', 'rows', 'hidden'),
    input('weight', 'f32', 'hidden'),
    input('scores', 'f32', 'rows', `${ALTUP_STREAMS}`),
    input('coefficients', 'f32', 'terms', `${ALTUP_STREAMS}`, `${ALTUP_STREAMS}`),
    i32('hidden'),
    i32('terms'),
    f32('scale'),
  ],
  grid: [{ of: 'rows' }, { of: 'hidden', per: SWIGLU_PART }],
  order: ORDER.rising,
  tolerance: roundings(
    '48 · 2⁻²⁴ · (|stream| + Σ |coefficient| · |mixed|) · |weight|: roundings of tanh are of numbers as large as 1',
    () => 48,
  ),
});

export const matchMagnitude = defineKernel({
  name: 'match_magnitude',
  source: 'match_magnitude.hip',
  summary: 'y *= |x| / |y|, the lengths of rows',
  arguments: [inout('y', 'f32', 'rows', 'columns'), input('x', 'f32', 'rows', 'columns'), i32('columns')],
  grid: [{ of: 'rows' }],
  order: ORDER.row,
  tolerance: roundings(
    '(columns / 4 + 16) · 2⁻²⁴ · |reference|: two sums of positive terms, taken 8 or more at a time',
    ({ columns }) => columns! / 4 + 16,
  ),
});

export const streamsContracts: readonly KernelContract[] = [mixStreams, matchMagnitude];
