import { RocmForgeError } from '../../../shared/errors.js';
import type {
  ExecuteResponse,
  LoadedModel,
  SlotOutput,
} from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Logger } from '../../../shared/log.js';
import { blocksOf, CHECKSUM_BYTES, openSumsOf } from '../scheduler/block-checksums.js';
import { type PlannedSlice, type StepPlan, sampledSlices } from '../scheduler/step-plan.js';

/** Probability of a certain token; sums are rounded. */
const MOST_LOGPROB = 0.01;

/** Number of log probabilities of prompt tokens that a slice returns. */
export function promptOutputsOf({ promptLogprobs, count, sample }: PlannedSlice): number {
  return promptLogprobs ? count - Number(sample) : 0;
}

/** Properties of a loaded model that its answers depend on. */
type AnsweringModel = Pick<LoadedModel, 'vocabularySize' | 'hiddenSize' | 'labels' | 'encoder'>;

/** Slices of a step whose answer has hidden states or scores: at the end of a sequence that is pooled, or all. */
export function returningSlices(
  slices: readonly PlannedSlice[],
  { hiddenSize, encoder }: Pick<LoadedModel, 'hiddenSize' | 'encoder'>,
): readonly PlannedSlice[] {
  if (hiddenSize === 0) return [];
  return slices.filter(({ pooling, sample }) => pooling === 'none' || (pooling !== undefined && (sample || encoder)));
}

/**
 * Holds an executor's answer to the step it must be of: what is wrong in it would become somebody's text.
 *
 * @param step the oldest step under way
 * @param model whose vocabularySize is the rows of its output, hiddenSize the elements of a hidden state, and labels its scores
 * @throws RocmForgeError `EXECUTOR_PROTOCOL`, saying what differs
 */
export function checkAnswer(step: StepPlan | undefined, response: ExecuteResponse, model: AnsweringModel): void {
  const { outputs, promptOutputs } = response;
  const { vocabularySize } = model;
  if (step === undefined) throw wrong(`step ${response.stepId}`, 'no step');
  if (response.stepId !== BigInt(step.stepId)) throw wrong(`step ${response.stepId}`, `step ${step.stepId}`);
  const sampled = sampledSlices(step);
  if (outputs.length !== sampled.length) throw wrong(`${outputs.length} tokens`, `${sampled.length}`);
  sampled.forEach(({ slot, sequence, mask, predictedTokens = 0 }, i) => {
    const output = outputs[i] as SlotOutput;
    if (output.late && mask !== 'pending') throw wrong(`no token for slot ${slot}`, 'one: its mask was there');
    const { logprobs, chosenLogprobs } = sequence.options.sampling;
    checkOutput(output, slot, output.late ? 0 : logprobs, vocabularySize);
    checkIds(output, output.late || output.nonFinite ? 0 : chosenLogprobs, vocabularySize);
    checkPredicted(output, predictedTokens, vocabularySize);
  });
  checkHiddenStates(step.slices, response, model);
  const checksumBytes = CHECKSUM_BYTES * blocksOf(step.checksums);
  if (response.checksums.length !== checksumBytes) {
    throw wrong(`${response.checksums.length} bytes of checksums`, `${checksumBytes}`);
  }
  const openBytes = CHECKSUM_BYTES * openSumsOf(step.checksums);
  if (response.openChecksums.length !== openBytes) {
    throw wrong(`${response.openChecksums.length} bytes of checksums of open blocks`, `${openBytes}`);
  }
  const expected = step.slices.reduce((sum, slice) => sum + promptOutputsOf(slice), 0);
  if (promptOutputs.length !== expected) throw wrong(`${promptOutputs.length} prompt tokens`, `${expected}`);
  let next = 0;
  for (const slice of step.slices) {
    for (let i = 0; i < promptOutputsOf(slice); i++) {
      const output = promptOutputs[next++] as SlotOutput;
      checkOutput(output, slice.slot, slice.sequence.options.sampling.promptLogprobs, vocabularySize);
      checkIds(output, 0, vocabularySize);
      const token = slice.sequence.token(slice.position + 1 + i);
      if (output.tokenId !== token) throw wrong(`prompt token ${output.tokenId}`, `${token}`);
    }
  }
}

function checkHiddenStates(
  slices: readonly PlannedSlice[],
  { hiddenStates }: ExecuteResponse,
  model: AnsweringModel,
): void {
  const returning = returningSlices(slices, model);
  if (hiddenStates.length !== returning.length)
    throw wrong(`hidden states of ${hiddenStates.length} slices`, `${returning.length}`);
  returning.forEach(({ pooling, count, sequence }, i) => {
    const { length = 0 } = hiddenStates[i] ?? {};
    const elements = sequence.options.returns?.isScored ? model.labels : model.hiddenSize;
    const expected = Float32Array.BYTES_PER_ELEMENT * (pooling === 'none' ? count : 1) * elements;
    if (length !== expected) throw wrong(`hidden states of ${length} bytes`, `${expected}`);
  });
}

/** @param logprobs 0: none; n + 1: the token's and those of the n likeliest */
function checkOutput(output: SlotOutput, slot: number, logprobs: number, vocabularySize: number): void {
  const { tokenId, topIds, topLogprobs } = output;
  if (output.slot !== slot) throw wrong(`slot ${output.slot}`, `slot ${slot}`);
  if (tokenId >= vocabularySize) throw wrong(`token ${tokenId}`, `one below ${vocabularySize}`);
  // If no token is likely there is nothing to report.
  const expected = output.nonFinite ? 0 : Math.max(0, logprobs - 1);
  if (topIds.length !== expected || topLogprobs.length !== expected) {
    throw wrong(`${topIds.length} ids and ${topLogprobs.length} log probabilities`, `${expected} of each`);
  }
  const odd = isOdd(output.logprob) ? output.logprob : topLogprobs.find(isOdd);
  if (odd !== undefined) throw wrong(`a log probability of ${odd}`, 'one of at most 0');
  const isRanked = logprobs > 0 && !output.nonFinite;
  if (isRanked ? output.rank < 1 || output.rank > vocabularySize : output.rank !== 0) {
    throw wrong(`rank ${output.rank}`, isRanked ? `one from 1 to ${vocabularySize}` : 'none');
  }
  checkTokens(topIds, vocabularySize, 'likely token');
}

/** @param given how many tokens the slot names */
function checkIds({ chosenLogprobs, chosenRanks }: SlotOutput, given: number, vocabularySize: number): void {
  if (chosenLogprobs.length !== given || chosenRanks.length !== given) {
    throw wrong(
      `${chosenLogprobs.length} log probabilities and ${chosenRanks.length} ranks of given tokens`,
      `${given}`,
    );
  }
  if (given === 0) return;
  const odd = chosenLogprobs.find(isOdd);
  if (odd !== undefined) throw wrong(`a log probability of ${odd} of a given token`, 'one of at most 0');
  const rank = chosenRanks.find((each) => each < 1 || each > vocabularySize);
  if (rank !== undefined) throw wrong(`rank ${rank} of a given token`, `one from 1 to ${vocabularySize}`);
}

/** @param most tokens that the slice requests: they are draft tokens of the next one */
function checkPredicted({ predictedIds }: SlotOutput, most: number, vocabularySize: number): void {
  if (predictedIds.length > most) throw wrong(`${predictedIds.length} predicted tokens`, `at most ${most}`);
  checkTokens(predictedIds, vocabularySize, 'predicted token');
}

/** A loop: most outputs have no such tokens, and a closure for each output is garbage at thousands of tokens a second. */
function checkTokens(ids: readonly number[], vocabularySize: number, name: string): void {
  for (const id of ids) if (id >= vocabularySize) throw wrong(`${name} ${id}`, `one below ${vocabularySize}`);
}

const isOdd = (logprob: number): boolean => !(logprob <= MOST_LOGPROB);

function wrong(is: string, expected: string): RocmForgeError {
  return new RocmForgeError('EXECUTOR_PROTOCOL', `the executor answered with ${is} instead of ${expected}`);
}

/** Counts what f16 could not hold in a step, and tells of it the first time. */
export function countSaturated(counters: { saturatedActivations: number }, count: number, log: Logger): void {
  if (count > 0 && counters.saturatedActivations === 0)
    log.warn({ count }, 'activations are beyond f16’s range: they are replaced by its largest number');
  counters.saturatedActivations += count;
}
