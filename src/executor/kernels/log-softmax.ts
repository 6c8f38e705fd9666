import { TOP_LOGPROBS_MAX } from '../../shared/sampling-schema.js';
import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { elementwise, exact } from '../device/tolerance.js';
import { slotArguments } from './paged-cache.js';
import { ORDER } from './reduction-order.js';
import { SAMPLE_PARTS } from './sample-parts.js';

export { TOP_LOGPROBS_MAX };

const rowsOfLogits = [
  input('logits', 'f32', 'samples', 'vocabulary'),
  input('sample_row', 'i32', 'samples'),
  input('row_slot', 'i32', 'tokens'),
  ...slotArguments,
] as const;

const given = input('biases', 'i32', 'slot_count', '1 + 2 * entries');

const output = inout('output', 'i32', 'samples', '3 + 2 * top_max');

const sizes = [i32('top_max'), i32('vocabulary')] as const;
const slotSizes = [i32('slot_words'), i32('entries')] as const;

export const logSoftmaxTop = defineKernel({
  name: 'log_softmax_top',
  source: 'log_softmax_top.hip',
  on: 'host',
  summary: 'log probability and rank of the sampled token, and the n likeliest or those of given ones',
  arguments: [...rowsOfLogits, given, output, ...slotSizes, ...sizes],
  grid: [{ of: 'samples' }],
  order: ORDER.row,
  tolerance: elementwise,
});

/** The first of two launches that together are log_softmax_top. */
export const likeliestParts = defineKernel({
  name: 'likeliest_parts',
  source: 'likeliest_parts.hip',
  on: 'gpu',
  summary: 'the n likeliest tokens of each part of each sampled row',
  arguments: [
    ...rowsOfLogits,
    inout('likeliest', 'i32', 'samples', `${SAMPLE_PARTS}`, 'top_max'),
    i32('slot_words'),
    ...sizes,
  ],
  grid: [{ of: `${SAMPLE_PARTS}` }, { of: 'samples' }],
  tolerance: exact('the tokens of log_softmax_top'),
});

/** The second. */
export const logSoftmaxMerge = defineKernel({
  name: 'log_softmax_merge',
  source: 'log_softmax_merge.hip',
  on: 'gpu',
  summary: 'log probability and rank of the sampled token, and the n likeliest of its parts or those of given ones',
  arguments: [
    ...rowsOfLogits,
    given,
    input('likeliest', 'i32', 'samples', `${SAMPLE_PARTS}`, 'top_max'),
    output,
    ...slotSizes,
    ...sizes,
  ],
  grid: [{ of: 'samples' }],
  order: ORDER.row,
  tolerance: elementwise,
});

export const promptLogprobs = defineKernel({
  name: 'prompt_logprobs',
  source: 'prompt_logprobs.hip',
  summary: 'log probability and rank of a prompt’s next token, and the n likeliest',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('draws', 'i32', '1'),
    input('target', 'i32', 'samples', '2'),
    inout('output', 'i32', 'samples', '3 + 2 * top_max'),
    i32('top_max'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'prompt_rows' }],
  order: ORDER.row,
  tolerance: elementwise,
});

export const logSoftmaxOperations = {
  'log-softmax-top': [logSoftmaxTop, likeliestParts, logSoftmaxMerge],
  'prompt-logprobs': [promptLogprobs],
} satisfies Readonly<Record<string, readonly KernelContract[]>>;
