import { defineKernel, inout, input, type KernelContract } from '../device/contract.js';
import { moved } from '../device/tolerance.js';

export const slotWrite = defineKernel({
  name: 'slot_write',
  source: 'slot_write.hip',
  summary: 'slots[index[i]] = value[i]',
  arguments: [
    inout('slots', 'i32', 'slot_count', 'slot_words'),
    input('writes', 'i32', 'writes', '2'),
    input('count', 'i32', '1'),
  ],
  grid: [{ of: 'writes', per: 'block' }],
  tolerance: moved,
});

export const slotWriteContracts: readonly KernelContract[] = [slotWrite];
