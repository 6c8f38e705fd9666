import { defineKernel, f32, i32, inout, type KernelContract } from '../device/contract.js';
import { roundings } from '../device/tolerance.js';

/** Elements of a row that one block of softcap computes. */
export const SOFTCAP_PART = 1024;

export const softcap = defineKernel({
  name: 'softcap',
  source: 'softcap.hip',
  summary: 'x = cap · tanh(x / cap)',
  arguments: [inout('x', 'f32', 'rows', 'columns'), i32('columns'), f32('cap')],
  grid: [{ of: 'rows' }, { of: 'columns', per: SOFTCAP_PART }],
  tolerance: roundings(
    '16 · 2⁻²⁴ · cap: a few roundings of numbers as large as the cap; those of 2 x / cap fade as e^x takes over',
    () => 16,
  ),
});

export const softcapContracts: readonly KernelContract[] = [softcap];
