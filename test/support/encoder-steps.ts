import type { Device } from '../../src/executor/device/device.js';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import {
  ExecuteRequest,
  Pooling,
  type Slice as SliceMessage,
  SlotOpen,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';

/** Poolings by their names in requests. */
export const POOLED_AS = { mean: Pooling.MEAN, cls: Pooling.FIRST, last: Pooling.LAST } as const;

/** An executor with an encoder, driven without a gateway. */
export class EncoderSteps {
  private stepId = 0n;
  private readonly opened = new Set<number>();

  private constructor(
    private readonly runner: StepRunner,
    private readonly hiddenSize: number,
    readonly kernels: readonly string[],
    readonly release: () => void,
  ) {}

  static async load(device: Device, file: string, options: Partial<LoadOptions> = {}): Promise<EncoderSteps> {
    const loaded = await loadModel(
      device,
      {
        ...{ path: file, maxContext: 256, maxSequences: 16, maxStepTokens: 0, kvMemoryBytes: 0, kvCacheType: 'f32' },
        fingerprint: '',
        ...options,
      },
      () => {},
    );
    const { forward } = loaded;
    return new EncoderSteps(new StepRunner(device, loaded, 1n), forward.returnedHiddenSize, forward.kernels, () =>
      loaded.release(),
    );
  }

  /** The hidden states of inputs of one step, `[tokens, hidden]` each. @param change of each slice, for tests of the protocol */
  async states(
    inputs: readonly (readonly number[])[],
    change: (slice: SliceMessage) => SliceMessage = (slice) => slice,
  ): Promise<Float32Array[]> {
    const states = await this.returned(inputs, (slice) => change({ ...slice, pooling: Pooling.NONE }));
    for (const [i, { length }] of states.entries())
      if (length !== (inputs[i]?.length ?? 0) * this.hiddenSize) throw new Error(`${length} elements`);
    return states;
  }

  /** Pooled hidden states of inputs of one step, `[hidden]` each. */
  pooled(inputs: readonly (readonly number[])[], pooling: Pooling): Promise<Float32Array[]> {
    return this.returned(inputs, (slice) => ({ ...slice, pooling }));
  }

  /** Scores of such states, `[labels]` each. */
  scores(inputs: readonly (readonly number[])[], pooling: Pooling): Promise<Float32Array[]> {
    return this.returned(inputs, (slice) => ({ ...slice, pooling, score: true }));
  }

  /** Results of slices of one step. @param change of each slice */
  async returned(
    inputs: readonly (readonly number[])[],
    change: (slice: SliceMessage, input: number) => SliceMessage,
  ): Promise<Float32Array[]> {
    this.stepId += 1n;
    const closes = [...this.opened];
    this.opened.clear();
    const blocksOf = ({ length }: readonly number[]) => Math.ceil(length / 16);
    let block = 1;
    const opens = inputs.map((ids, slot) => {
      this.opened.add(slot);
      const blockIds = Uint32Array.from({ length: blocksOf(ids) }, () => block++);
      return {
        ...SlotOpen.create(),
        ...{ slot, tokenIds: Buffer.from(Uint32Array.from(ids).buffer), promptTokens: ids.length },
        ...{ blockIds: Buffer.from(blockIds.buffer), sampling: encodeSampling(NEUTRAL_SAMPLING) },
      };
    });
    const slices = inputs.map((ids, slot) =>
      change({ slot, position: 0, count: ids.length, sample: false, promptLogprobs: false }, slot),
    );
    const step = { ...ExecuteRequest.create(), stepId: this.stepId, epoch: 1n, closes, opens, slices };
    const { hiddenStates, outputs } = await this.runner.submit(step);
    if (outputs.length > 0) throw new Error('an encoder has sampled');
    return hiddenStates.map((bytes) => new Float32Array(Uint8Array.from(bytes).buffer));
  }
}
