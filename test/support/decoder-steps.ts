import type { Device } from '../../src/executor/device/device.js';
import type { LoadedModel } from '../../src/executor/load/loaded-model.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import {
  ExecuteRequest,
  type ExecuteResponse,
  type Slice,
  SlotOpen,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';

const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
/** KV blocks of a slot. */
const BLOCKS = 4;

/** Steps of a decoder, whose slots 0 and up hold `prompts`. */
export class DecoderSteps {
  private readonly runner: StepRunner;
  private stepId = 0n;
  private opens: SlotOpen[];

  constructor(device: Device, model: LoadedModel, prompts: readonly (readonly number[])[]) {
    this.runner = new StepRunner(device, model, 1n);
    this.opens = prompts.map((ids, slot) => ({
      ...SlotOpen.create(),
      ...{ slot, tokenIds: words(...ids), promptTokens: ids.length, sampling: encodeSampling(NEUTRAL_SAMPLING) },
      blockIds: words(...Array.from({ length: BLOCKS }, (_, i) => 1 + slot * BLOCKS + i)),
    }));
  }

  run(...slices: readonly Partial<Slice>[]): Promise<ExecuteResponse> {
    this.stepId += 1n;
    const { opens, stepId } = this;
    this.opens = [];
    const whole = slices.map(
      (slice): Slice => ({
        ...{ slot: 0, position: 0, count: 1, sample: false, promptLogprobs: false },
        ...slice,
      }),
    );
    return this.runner.submit({ ...ExecuteRequest.create(), stepId, epoch: 1n, opens, slices: whole });
  }
}

const floats = (bytes: Uint8Array | undefined) => new Float32Array(Uint8Array.from(bytes!).buffer);
/** Hidden states, or scores, that the slices of a step return. */
export const returnedOf = ({ hiddenStates }: ExecuteResponse) => hiddenStates.map(floats);
