import type { ExecuteRequest } from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling } from '../../../shared/sampling-schema.js';
import type { StepMasks } from '../masking.js';
import type { StepPlan } from '../scheduler/step-plan.js';

/** The frame that tells the executor of one epoch to run a plan. */
export function encodeStep(plan: StepPlan, epoch: bigint, masks?: StepMasks): ExecuteRequest {
  return {
    stepId: BigInt(plan.stepId),
    epoch,
    closes: plan.closes as number[],
    opens: plan.opens.map(({ sequence, slot, blocks, windowStart, windowBlocks }) => {
      const { promptIds, sampling } = sequence.options;
      return {
        slot,
        tokenIds: bytesOf(sequence.tokens()),
        promptTokens: promptIds.length,
        blockIds: bytesOf(Uint32Array.from(blocks)),
        sampling: encodeSampling(sampling),
        biasIds: sampling.logitBias.map(([id]) => id),
        biasValues: sampling.logitBias.map(([, bias]) => bias),
        suppressedIds: sampling.suppressedIds as number[],
        windowStart,
        windowBlockIds: bytesOf(Uint32Array.from(windowBlocks)),
      };
    }),
    appends: plan.appends.map(({ slot, blocks, windowBlocks }) => ({
      slot,
      blockIds: bytesOf(Uint32Array.from(blocks)),
      windowBlockIds: bytesOf(Uint32Array.from(windowBlocks)),
    })),
    slices: plan.slices.map(({ slot, position, count, sample, promptLogprobs, tokens, guessMasks }, i) => ({
      slot,
      position,
      count,
      sample,
      promptLogprobs,
      mask: masks?.slices[i],
      tokenIds: tokens && bytesOf(Uint32Array.from(tokens)),
      guessMasks: guessMasks && bytesOf(Uint32Array.from(masks?.guesses[i] ?? [])),
    })),
    masks: masks?.masks ?? [],
    slotMasks: [],
  };
}

/** Little-endian, as every machine that Node runs on is. */
function bytesOf(words: Uint32Array): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength);
}
