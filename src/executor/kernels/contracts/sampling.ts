import { defineKernel, i32, inout, input, type KernelContract } from '../contract.js';
import { elementwise, exact } from '../tolerance.js';

const logits = inout('logits', 'f32', 'samples', 'vocabulary');
const sampled = [input('sample_row', 'i32', 'samples'), input('row_slot', 'i32', 'tokens')] as const;
const slots = input('slots', 'i32', 'slot_count', 'slot_words');
const EDGE = exact('where the reference is not within rounding of the filter’s edge: elements are kept or masked');

export const topK = defineKernel({
  name: 'top_k',
  source: 'top_k.hip',
  summary: 'sets all but the k largest logits of each row to -inf',
  arguments: [logits, input('k', 'i32', 'samples'), i32('vocabulary')],
  grid: [{ of: 'samples' }],
  tolerance: exact('elements are kept or masked; ties to the lower id'),
});

export const topP = defineKernel({
  name: 'top_p',
  source: 'top_p.hip',
  summary: 'keeps the fewest, largest logits of each row that hold a share p of the mass',
  arguments: [logits, input('p', 'f32', 'samples'), i32('vocabulary')],
  grid: [{ of: 'samples' }],
  tolerance: EDGE,
});

export const minP = defineKernel({
  name: 'min_p',
  source: 'min_p.hip',
  summary: 'sets to -inf every logit whose probability is below a share p of the best one’s',
  arguments: [logits, input('p', 'f32', 'samples'), i32('vocabulary')],
  grid: [{ of: 'samples' }],
  tolerance: EDGE,
});

export const penalties = defineKernel({
  name: 'penalties',
  source: 'penalties.hip',
  summary: 'repetition, frequency and presence penalties on the tokens a sequence holds',
  arguments: [
    logits,
    ...sampled,
    slots,
    input('history', 'i32', 'slot_count', '1 + 2 * entries'),
    i32('slot_words'),
    i32('entries'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: elementwise,
});

export const tokenHistory = defineKernel({
  name: 'token_history',
  source: 'token_history.hip',
  summary: 'counts the token each row has just sampled in its slot’s history',
  arguments: [
    ...sampled,
    slots,
    inout('history', 'i32', 'slot_count', '1 + 2 * entries'),
    i32('slot_words'),
    i32('entries'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: exact('integers'),
});

export const logitBias = defineKernel({
  name: 'logit_bias',
  source: 'logit_bias.hip',
  summary: 'logits[token] += bias, for the tokens that a row’s slot names',
  arguments: [
    logits,
    ...sampled,
    input('biases', 'i32', 'slot_count', '1 + 2 * entries'),
    i32('entries'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: exact('one rounding, the same as the reference rounded to f32'),
});

/** What comes before the sample kernel, and its filters on their own. */
export const samplingContracts: readonly KernelContract[] = [topK, topP, minP, penalties, tokenHistory, logitBias];
