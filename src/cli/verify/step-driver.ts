import type { Device } from '../../executor/device/device.js';
import { KV_BLOCK_TOKENS } from '../../executor/kernels/index.js';
import type { LoadedModel } from '../../executor/load/loaded-model.js';
import { blocksFor } from '../../executor/model/slot-layout.js';
import { StepRunner } from '../../executor/steps/step-runner.js';
import { ExecuteRequest, SlotAppend, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { firstSeenBlock } from '../../shared/kv-window.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';

/** Positions `position .. position + count - 1` of a slot's sequence; `sample` asks for the last one's logits. */
export type Slice = readonly [slot: number, position: number, count: number, sample: boolean];

/** Windowed blocks of a slot, of which those have left that no later position sees. */
interface WindowTable {
  start: number;
  readonly blocks: number[];
}

/** Drives an executor without a gateway: sequences of known tokens, in steps as the caller cuts them. */
export class StepDriver {
  private readonly runner: StepRunner;
  private stepId = 0n;
  private readonly windows = new Map<number, WindowTable>();
  /** Windowed blocks that are nobody's; the one that left last is taken first, so that what still needs it is overwritten. */
  private readonly freeWindowed: number[];

  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    private readonly epoch: bigint,
  ) {
    this.runner = new StepRunner(device, model, epoch);
    const { windowed } = model.forward.limits;
    this.freeWindowed = Array.from({ length: (windowed?.blocks ?? 1) - 1 }, (_, i) => i + 1);
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
    for (const [slot] of opens) this.windows.set(slot, { start: 0, blocks: [] });
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
      appends: slices.flatMap((slice) => this.windowedFor(slice)),
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

  /** Gives the slice's slot the windowed blocks that it needs and takes back those that have left. */
  private windowedFor([slot, position, count]: Slice): SlotAppend[] {
    const { windowed } = this.model.forward.limits;
    const table = this.windows.get(slot);
    if (windowed === undefined || table === undefined) return [];
    const first = firstSeenBlock(position, windowed.window, KV_BLOCK_TOKENS);
    while (table.start < first) {
      this.freeWindowed.push(table.blocks.shift() as number);
      table.start += 1;
    }
    const added: number[] = [];
    while (table.start + table.blocks.length < blocksFor(position + count)) {
      const block = this.freeWindowed.pop();
      if (block === undefined) throw new RangeError(`no windowed block is left for slot ${slot}`);
      table.blocks.push(block);
      added.push(block);
    }
    const windowBlockIds = Buffer.from(Uint32Array.from(added).buffer);
    return added.length === 0 ? [] : [{ ...SlotAppend.create(), slot, windowBlockIds }];
  }
}
