import type { ExecuteRequest, SlotSampling } from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import type { SequenceSampling } from '../../request/sequence.js';
import type { StepPlan } from '../scheduler/step-plan.js';

/** The frame that tells the executor of one generation to run a plan. */
export function encodeStep(plan: StepPlan, generation: bigint): ExecuteRequest {
  return {
    stepId: BigInt(plan.stepId),
    generation,
    closes: plan.closes as number[],
    opens: plan.opens.map(({ sequence, slot, blocks }) => ({
      slot,
      tokenIds: bytesOf(sequence.tokens()),
      promptTokens: sequence.options.promptIds.length,
      blockIds: bytesOf(Uint32Array.from(blocks)),
      sampling: slotSampling(sequence.options.sampling, sequence.options.promptIds.length),
    })),
    appends: plan.appends.map(({ slot, blocks }) => ({ slot, blockIds: bytesOf(Uint32Array.from(blocks)) })),
    slices: plan.slices.map(({ slot, position, count, sample, promptLogprobs }) => ({
      slot,
      position,
      count,
      sample,
      promptLogprobs,
    })),
  };
}

function slotSampling(sampling: SequenceSampling, promptTokens: number): SlotSampling {
  return {
    temperature: sampling.temperature,
    topK: sampling.topK,
    topP: sampling.topP,
    minP: sampling.minP,
    seed: sampling.seed,
    sampleIndex: sampling.sampleIndex,
    logprobs: sampling.logprobs,
    topLogprobs: sampling.topLogprobs,
    repetitionPenalty: sampling.repetitionPenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    presencePenalty: sampling.presencePenalty,
    biasIds: sampling.logitBias.map(([id]) => id),
    biasValues: sampling.logitBias.map(([, bias]) => bias),
    suppressedIds: sampling.suppressedIds as number[],
    topPromptLogprobs: sampling.promptLogprobs ?? 0,
    suppressBefore: sampling.minTokens === 0 ? 0 : promptTokens + sampling.minTokens,
  };
}

/** Little-endian, as every machine that Node runs on is. */
function bytesOf(words: Uint32Array): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength);
}
