import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { ropeKvAppend } from './rope-kv-append.js';

export const rope = defineKernel({
  name: 'rope',
  source: 'rope.hip',
  summary: 'rotates the first heads of each row by the row’s position, in place',
  arguments: [
    inout('x', 'f32', 'tokens', 'row_heads', 'head_dim'),
    input('cosine', 'f32', 'max_position', 'half_rotary'),
    input('sine', 'f32', 'max_position', 'half_rotary'),
    input('row_position', 'i32', 'tokens'),
    i32('row_heads'),
    i32('head_dim'),
    i32('rotary'),
    i32('adjacent'),
  ],
  grid: [{ of: 'heads' }, { of: 'tokens' }],
  multiples: [['rotary', '2']],
  tolerance: ropeKvAppend('f32').tolerance,
});

export const ropeContracts: readonly KernelContract[] = [rope];
