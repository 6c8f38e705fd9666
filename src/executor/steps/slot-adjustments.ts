import type { SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { SamplingValues } from '../../shared/sampling-schema.js';
import { BIAS_ENTRIES, type SlotArena } from '../model/slot-layout.js';
import type { SamplingNeeds } from '../model/step-counts.js';
import { protocolError } from './protocol-error.js';

/** Receives what a step changes in the slots' device memory: word index and value. */
export type SlotWriter = (index: number, value: number) => void;

/** True if how a token is drawn depends on those before it. */
function isPenalized({ repetitionPenalty, frequencyPenalty, presencePenalty }: SamplingValues): boolean {
  return repetitionPenalty !== 1 || frequencyPenalty !== 0 || presencePenalty !== 0;
}

/** Sampling needs of such parameters. @param isBiased true if some logits are biased or held down */
export function samplingNeeds(sampling: SamplingValues, isBiased: boolean): SamplingNeeds {
  const { temperature, topK, typicalP, topP, logprobs, constrained } = sampling;
  const isDrawn = temperature > 0;
  return {
    isAdjusted: isPenalized(sampling) || isBiased || constrained !== 0,
    isDrawn,
    isFiltered: isDrawn && (topK > 0 || typicalP < 1 || topP < 1),
    isTold: logprobs > 0,
  };
}

/** Logit biases by token id. @throws RocmForgeError `EXECUTOR_PROTOCOL` */
export function biasesOf({ slot, biasIds, biasValues }: SlotOpen): Map<number, number> {
  if (biasIds.length !== biasValues.length) {
    throw protocolError(`bias values for ${biasIds.length} ids are ${biasValues.length} of slot ${slot}`);
  }
  for (const value of biasValues) if (!Number.isFinite(value)) throw protocolError(`bias ${value} of slot ${slot}`);
  return new Map(biasIds.map((id, i) => [id, biasValues[i] as number]));
}

/**
 * Refuses log probabilities of tokens that no bias names, or beside those of the likeliest, whose places they take.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL`
 */
export function checkIds(slot: number, { logprobs, chosenLogprobs }: SamplingValues, biases: number): void {
  if (chosenLogprobs === 0 || (logprobs === 1 && chosenLogprobs <= biases)) return;
  throw protocolError(
    `log probabilities of ${chosenLogprobs} of ${biases} biased tokens and ${logprobs} in slot ${slot}`,
  );
}

/** The tokens that penalties look at, each with how often it was generated; -1 where nothing is penalized. */
export function writeHistory(
  { historyOffset, historyEntries }: SlotArena,
  { slot, promptTokens }: SlotOpen,
  sampling: SamplingValues,
  tokenIds: Uint32Array,
  write: SlotWriter,
): void {
  let word = historyOffset + slot * (1 + 2 * historyEntries);
  if (!isPenalized(sampling)) {
    write(word, -1);
    return;
  }
  const generated = new Map<number, number>();
  for (const [i, id] of tokenIds.entries()) generated.set(id, (generated.get(id) ?? 0) + (i < promptTokens ? 0 : 1));
  write(word++, generated.size);
  for (const [id, times] of generated) {
    write(word++, id);
    write(word++, times);
  }
}

/** @throws RocmForgeError `EXECUTOR_PROTOCOL` */
export function writeBiases(
  { biasOffset }: SlotArena,
  slot: number,
  biases: ReadonlyMap<number, number>,
  vocabularySize: number,
  write: SlotWriter,
): void {
  if (biases.size > BIAS_ENTRIES) throw protocolError(`${biases.size} biased logits in slot ${slot}`);
  let word = biasOffset + slot * (1 + 2 * BIAS_ENTRIES);
  write(word++, biases.size);
  for (const [id, bias] of biases) {
    if (id >= vocabularySize) throw protocolError(`a bias for token id ${id} in slot ${slot}`);
    write(word++, id);
    write(word++, bitsOf(bias));
  }
}

const floatBits = new Float32Array(1);
const intBits = new Int32Array(floatBits.buffer);

function bitsOf(value: number): number {
  floatBits[0] = value;
  return intBits[0] as number;
}
