import { defineKernel, i32, inout, input, type KernelContract } from '../device/contract.js';
import { elementwise, exact, moved } from '../device/tolerance.js';
import type { Launch, LaunchCondition, StepCount, ValuesOf } from './launch-plan.js';
import { TOP_LOGPROBS_MAX } from './log-softmax.js';
import { SAMPLE_PARTS } from './sample-parts.js';

export { SAMPLE_PARTS };

/** Words of one sampled row's output: token, log probability, ids, log probabilities. */
export const OUTPUT_WORDS = 3 + 2 * TOP_LOGPROBS_MAX;

/** Set in the token of a row that none could be drawn for. */
export const OUTPUT_NON_FINITE = 0x80000000 | 0;

const logits = inout('logits', 'f32', 'samples', 'vocabulary');

const sampled = [input('sample_row', 'i32', 'samples'), input('row_slot', 'i32', 'tokens')] as const;

/** The token of each row of the step; of a slot's sampled rows all but the first are draft tokens. */
const rowToken = input('row_token', 'i32', 'tokens');

const slots = input('slots', 'i32', 'slot_count', 'slot_words');

const EDGE = exact('where the reference is not within rounding of the filter’s edge: elements are kept or masked');

export const topK = defineKernel({
  name: 'top_k',
  source: 'twins/top_k.hip',
  summary: 'sets all but the k largest logits of each row to -inf',
  arguments: [logits, input('k', 'i32', 'samples'), i32('vocabulary')],
  grid: [{ of: 'samples' }],
  tolerance: exact('elements are kept or masked; ties to the lower id'),
});

export const topP = defineKernel({
  name: 'top_p',
  source: 'twins/top_p.hip',
  summary: 'keeps the fewest, largest logits of each row that hold a share p of the mass',
  arguments: [logits, input('p', 'f32', 'samples'), i32('vocabulary')],
  grid: [{ of: 'samples' }],
  tolerance: EDGE,
});

export const minP = defineKernel({
  name: 'min_p',
  source: 'twins/min_p.hip',
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
    rowToken,
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
  summary: 'counts the tokens just sampled in their slots’ histories',
  arguments: [
    input('draws', 'i32', '1'),
    ...sampled,
    rowToken,
    input('output', 'i32', 'samples', 'output_words'),
    inout('history', 'i32', 'slot_count', '1 + 2 * entries'),
    i32('output_words'),
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

/** Words that each of them leaves; `SAMPLE_PART_WORDS`. */
export const SAMPLE_PART_WORDS = 4;

/** Blocks that share a row's filtering, the bins of each, and the candidates of each and of all together. */
export const FILTER_PARTS = 16;
export const FILTER_BINS = 512;
export const PART_CANDIDATES = 512;
export const ROW_CANDIDATES = 4096;

/** Words that filtering a row leaves; `FilterWord` of `forge/sampling.h` says what they are. */
export const FILTER_WORDS = 10 + FILTER_PARTS * (1 + PART_CANDIDATES + 2 * FILTER_BINS);

const biases = input('biases', 'i32', 'slot_count', '1 + 2 * entries');

const drawnFrom = [
  input('logits', 'f32', 'samples', 'vocabulary'),
  input('adjusted', 'f32', 'samples', 'vocabulary'),
  ...sampled,
] as const;

const parts = inout('parts', 'i32', 'samples', `${SAMPLE_PART_WORDS}`, `${SAMPLE_PARTS}`);

const partsLeft = input('parts', 'i32', 'samples', `${SAMPLE_PART_WORDS}`, `${SAMPLE_PARTS}`);

/** Mask index of a row whose tokens no mask restricts, and of one whose mask has not come in time. */
export const MASK_NONE = -1;
export const MASK_LATE = -2;

export const tokenMask = defineKernel({
  name: 'token_mask',
  source: 'token_mask.hip',
  summary: 'logits[token] = -inf, for the tokens that a row’s mask does not allow',
  arguments: [
    logits,
    input('row_mask', 'i32', 'samples'),
    input('masks', 'i32', 'masks', 'mask_words'),
    i32('mask_words'),
    i32('vocabulary'),
  ],
  grid: [{ of: `${SAMPLE_PARTS}` }, { of: 'samples' }],
  tolerance: exact('elements are kept or masked'),
});

const filters = inout('filters', 'i32', 'samples', `${FILTER_WORDS}`);

const rowPosition = input('row_position', 'i32', 'tokens');

const adjustSizes = [i32('slot_words'), i32('entries'), i32('vocabulary')] as const;

const partGrid = [{ of: `${SAMPLE_PARTS}` }, { of: 'samples' }] as const;

const filterGrid = [{ of: `${FILTER_PARTS}` }, { of: 'samples' }] as const;

const SAME = exact('the tokens of sample');

export const sample = defineKernel({
  name: 'sample',
  source: 'sample.hip',
  on: 'host',
  summary: 'next token: temperature, top_k, top_p, min_p, then argmax of logit / temperature + Gumbel noise',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    input('sample_row', 'i32', 'samples'),
    input('row_position', 'i32', 'tokens'),
    input('row_slot', 'i32', 'tokens'),
    inout('slots', 'i32', 'slot_count', 'slot_words'),
    inout('output', 'i32', 'samples', 'output_words'),
    i32('slot_words'),
    i32('output_words'),
    i32('vocabulary'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: exact('where the reference is not within rounding of a tie or of a filter’s edge'),
});

/** Logits that penalties, logit_bias and token_mask then change. */
export const copyAdjusted = defineKernel({
  name: 'copy_adjusted',
  source: 'copy_adjusted.hip',
  on: 'gpu',
  summary: 'adjusted[s] = logits[s], for the rows whose slot has penalties, biases or a constraint',
  arguments: [
    input('logits', 'f32', 'samples', 'vocabulary'),
    inout('adjusted', 'f32', 'samples', 'vocabulary'),
    ...sampled,
    slots,
    biases,
    ...adjustSizes,
  ],
  grid: partGrid,
  tolerance: moved,
});

/** The first of six launches that together are sample: rows with penalties or biases are read from `adjusted`. */
export const sampleBest = defineKernel({
  name: 'sample_best',
  source: 'sample_best.hip',
  on: 'gpu',
  summary: 'the largest logit of each part of each sampled row',
  arguments: [...drawnFrom, slots, biases, parts, ...adjustSizes],
  grid: partGrid,
  tolerance: SAME,
});

/** The second; rows without top_k and top_p, and those with typical_p, are not its affair. */
export const sampleBins = defineKernel({
  name: 'sample_bins',
  source: 'sample_bins.hip',
  on: 'gpu',
  summary: 'tokens or mass of each part of each filtered row, by distance from the largest logit',
  arguments: [...drawnFrom, slots, biases, partsLeft, filters, ...adjustSizes],
  grid: filterGrid,
  tolerance: SAME,
});

/** The third. */
export const sampleCandidates = defineKernel({
  name: 'sample_candidates',
  source: 'sample_candidates.hip',
  on: 'gpu',
  summary: 'the tokens among which the threshold of each filtered row lies',
  arguments: [...drawnFrom, slots, biases, partsLeft, filters, ...adjustSizes],
  grid: filterGrid,
  tolerance: SAME,
});

/** The fourth; those with typical_p it filters alone. */
export const sampleFilter = defineKernel({
  name: 'sample_filter',
  source: 'sample_filter.hip',
  on: 'gpu',
  summary: 'what top_k, typical_p and top_p leave of each filtered row',
  arguments: [...drawnFrom, slots, biases, partsLeft, filters, ...adjustSizes],
  grid: [{ of: 'samples' }],
  tolerance: SAME,
});

/** The fifth; rows that are greedy are not its affair. */
export const sampleDraw = defineKernel({
  name: 'sample_draw',
  source: 'sample_draw.hip',
  on: 'gpu',
  summary: 'the best logit with its noise of each part of each sampled row',
  arguments: [
    ...drawnFrom,
    rowPosition,
    slots,
    biases,
    parts,
    input('filters', 'i32', 'samples', `${FILTER_WORDS}`),
    ...adjustSizes,
  ],
  grid: partGrid,
  tolerance: SAME,
});

/** The sixth. */
export const samplePick = defineKernel({
  name: 'sample_pick',
  source: 'sample_pick.hip',
  on: 'gpu',
  summary: 'next token of each sampled row from its parts',
  arguments: [
    ...sampled,
    inout('slots', 'i32', 'slot_count', 'slot_words'),
    partsLeft,
    inout('output', 'i32', 'samples', 'output_words'),
    i32('slot_words'),
    i32('output_words'),
  ],
  grid: [{ of: 'samples' }],
  tolerance: SAME,
});

/**
 * Draws the rows' tokens: a launch on the host; on a GPU many blocks share a row, since one alone would take longer than a
 * whole layer. `adjusted` holds what penalties and biases have made of `logits`.
 *
 * @param when in which steps rows are drawn, and with filters
 */
export function launchSample(
  launch: Launch,
  isHost: boolean,
  values: SampleValues,
  dims: Readonly<Record<string, number | StepCount>>,
  when: { readonly drawn: LaunchCondition; readonly filtered: LaunchCondition },
): void {
  const { logits, adjusted, sample_row, row_slot, row_position, slots, biases, entries } = values;
  const { parts, filters, output, slot_words, output_words, vocabulary } = values;
  const rows = { sample_row, row_slot, slots, slot_words };
  if (isHost) {
    launch(sample, { ...rows, logits: adjusted, row_position, output, output_words, vocabulary }, dims);
    return;
  }
  const from = { ...rows, logits, adjusted, biases, entries, vocabulary, parts };
  launch(sampleBest, from, dims);
  for (const filtering of [sampleBins, sampleCandidates, sampleFilter])
    launch(filtering, { ...from, filters }, dims, when.filtered);
  launch(sampleDraw, { ...from, row_position, filters }, dims, when.drawn);
  launch(samplePick, { ...rows, parts, output, output_words }, dims);
}
type SampleValues = ValuesOf<typeof sampleDraw> & ValuesOf<typeof samplePick>;

export const samplingOperations = {
  penalties: [penalties],
  'logit-bias': [logitBias],
  'token-mask': [tokenMask],
  sample: [sample, copyAdjusted, sampleBest, sampleBins, sampleCandidates, sampleFilter, sampleDraw, samplePick],
  'top-k': [topK],
  'top-p': [topP],
  'min-p': [minP],
  'token-history': [tokenHistory],
} satisfies Readonly<Record<string, readonly KernelContract[]>>;
