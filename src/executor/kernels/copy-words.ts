import { defineKernel, i32, input, type KernelContract, output } from '../device/contract.js';
import { moved } from '../device/tolerance.js';

/** Kernel that copies a step's tables in and its results out if they are few words: `native/gpu_device.cc` launches it. */
export const copyWords = defineKernel({
  name: 'copy_words',
  source: 'copy_words.hip',
  on: 'gpu',
  summary: 'y[i] = x[i], of which one lies in pinned memory of the host',
  arguments: [input('x', 'i32', 'count'), output('y', 'i32', 'count'), i32('count')],
  grid: [{ of: 'count', per: 'block' }],
  tolerance: moved,
});

/** Words that {@link copyChunks} copies at a time. */
export const COPY_CHUNK = 1 << 18;

/** Copies within the host's memory, by its threads. */
export const copyChunks = defineKernel({
  name: 'copy_chunks',
  source: 'copy_chunks.hip',
  on: 'host',
  isCpuOnly: true,
  summary: "y[i] = x[i] in the host's memory",
  arguments: [input('x', 'i32', 'count'), output('y', 'i32', 'count'), i32('count')],
  grid: [{ of: 'count', per: COPY_CHUNK }],
  tolerance: moved,
});

export const copyWordsContracts: readonly KernelContract[] = [copyWords, copyChunks];
