import { TOP_LOGPROBS_MAX } from '../../shared/sampling-schema.js';
import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { elementwise } from '../device/tolerance.js';
import { slotArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';

export { TOP_LOGPROBS_MAX };

export const logSoftmaxTop = defineKernel({
  name: 'log_softmax_top',
  source: 'log_softmax_top.hip',
  summary: 'log probability of the sampled token and of the n likeliest',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('sample_row', 'i32', 'samples'),
    input('row_slot', 'i32', 'tokens'),
    ...slotArguments,
    inout('output', 'i32', 'samples', '2 + 2 * top_max'),
    i32('slot_words'),
    i32('top_max'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  order: ORDER.row,
  tolerance: elementwise,
});

export const promptLogprobs = defineKernel({
  name: 'prompt_logprobs',
  source: 'prompt_logprobs.hip',
  summary: 'log probability of a prompt’s next token and of the n likeliest',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('draws', 'i32', '1'),
    input('target', 'i32', 'samples', '2'),
    inout('output', 'i32', 'samples', '2 + 2 * top_max'),
    i32('top_max'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'prompt_rows' }],
  order: ORDER.row,
  tolerance: elementwise,
});

export const logSoftmaxOperations = {
  'log-softmax-top': [logSoftmaxTop],
  'prompt-logprobs': [promptLogprobs],
} satisfies Readonly<Record<string, readonly KernelContract[]>>;
