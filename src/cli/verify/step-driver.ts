import type { Device } from '../../executor/device/device.js';
import type { LoadedModel } from '../../executor/load/loaded-model.js';
import { StepRunner } from '../../executor/steps/step-runner.js';
import { ExecuteRequest, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';
import { requireDecoder } from '../common/decoder.js';
import { WindowedBlocks } from '../common/windowed-blocks.js';

/** Positions `position .. position + count - 1` of a slot's sequence; `sample` asks for the last one's logits. */
export type Slice = readonly [slot: number, position: number, count: number, sample: boolean];

/** Drives an executor without a gateway: sequences of known tokens, in steps as the caller cuts them. */
export class StepDriver {
  private readonly runner: StepRunner;
  private stepId = 0n;
  private readonly windowed: WindowedBlocks;

  /** @throws RocmForgeError `MODEL_UNSUPPORTED` for an encoder */
  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    private readonly epoch: bigint,
  ) {
    requireDecoder(model.forward.limits);
    this.runner = new StepRunner(device, model, epoch);
    this.windowed = new WindowedBlocks(model.forward.limits.windowed);
  }

  /**
   * One step, with the logits read from the device: slow, and exact. Each sequence opened gets as many KV blocks as the context allows, in an order that is not rising.
   *
   * @returns the logits of each slice that samples; of a step that went through a split model in parts, those of its last part
   */
  async step(
    slices: readonly Slice[],
    opens: readonly (readonly [slot: number, tokenIds: Uint32Array])[] = [],
  ): Promise<Float32Array[]> {
    const { model, logits } = this.model.forward;
    await this.sample(slices, opens);
    const sampled = this.runner.heldLogits;
    const all = this.device.readF32(logits, sampled * model.vocabularySize);
    return Array.from({ length: sampled }, (_, i) =>
      all.subarray(i * model.vocabularySize, (i + 1) * model.vocabularySize),
    );
  }

  /** One step as a gateway has it run, the step before it having returned. @returns the token of each slice that samples, the likeliest one */
  async sample(
    slices: readonly Slice[],
    opens: readonly (readonly [slot: number, tokenIds: Uint32Array])[] = [],
  ): Promise<number[]> {
    const { limits } = this.model.forward;
    const blocks = Math.floor((limits.kvBlocks - 1) / limits.maxSequences);
    this.stepId += 1n;
    for (const [slot] of opens) this.windowed.open(slot);
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
      appends: slices.flatMap(([slot, position, count]) => this.windowed.appends(slot, position, count)),
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
