import type { Device } from '../../executor/device/device.js';
import type { LoadedModel } from '../../executor/loaded-model.js';
import { StepRunner } from '../../executor/step-runner.js';
import { ExecuteRequest, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';

/** Positions `position .. position + count - 1` of a slot's sequence; `sample` asks for the last one's logits. */
export type Slice = readonly [slot: number, position: number, count: number, sample: boolean];

/** Drives an executor without a gateway: sequences of known tokens, in steps as the caller cuts them. */
export class StepDriver {
  private readonly runner: StepRunner;
  private stepId = 0n;

  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    private readonly epoch: bigint,
  ) {
    this.runner = new StepRunner(device, model, epoch);
  }

  /**
   * One step, with the logits read from the device: slow, and exact. Each sequence opened gets as many KV blocks as the context allows, in an order that is not rising.
   *
   * @returns the logits of each slice that samples
   */
  async step(
    slices: readonly Slice[],
    opens: readonly (readonly [slot: number, tokenIds: Uint32Array])[] = [],
  ): Promise<Float32Array[]> {
    const { model, logits } = this.model.forward;
    const sampled = (await this.sample(slices, opens)).length;
    const all = this.device.readF32(logits, sampled * model.vocabularySize);
    return Array.from({ length: sampled }, (_, i) =>
      all.subarray(i * model.vocabularySize, (i + 1) * model.vocabularySize),
    );
  }

  /** One step as a gateway has it run. @returns the token of each slice that samples, the likeliest one */
  async sample(
    slices: readonly Slice[],
    opens: readonly (readonly [slot: number, tokenIds: Uint32Array])[] = [],
  ): Promise<number[]> {
    const { limits } = this.model.forward;
    const blocks = Math.floor((limits.kvBlocks - 1) / limits.maxSequences);
    this.stepId += 1n;
    const { outputs } = await this.runner.submit({
      ...ExecuteRequest.create(),
      stepId: this.stepId,
      epoch: this.epoch,
      opens: opens.map(([slot, tokenIds]) => ({
        ...SlotOpen.create(),
        slot,
        tokenIds: Buffer.from(tokenIds.buffer),
        promptTokens: tokenIds.length,
        blockIds: Buffer.from(
          Uint32Array.from({ length: blocks }, (_, i) => 1 + slot + (blocks - 1 - i) * limits.maxSequences).buffer,
        ),
        sampling: encodeSampling(NEUTRAL_SAMPLING),
      })),
      slices: slices.map(([slot, position, count, sample]) => ({
        slot,
        position,
        count,
        sample,
        promptLogprobs: false,
      })),
    });
    return outputs.map(({ tokenId }) => tokenId);
  }
}
