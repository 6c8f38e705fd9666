import { aligned, defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { exact } from '../device/tolerance.js';

export const readWords = defineKernel({
  name: 'read_words',
  source: 'read_words.hip',
  summary: 'y[b] = the exclusive or of the words of part b',
  arguments: [aligned(16, input('words', 'i32', 'count')), output('y', 'i32', 'parts'), i32('count'), i32('part')],
  grid: [{ of: 'parts' }],
  tolerance: exact('whole numbers'),
});

export const readWordsContracts: readonly KernelContract[] = [readWords];
