import type { NativeStep } from '../device/addon.js';
import type { Device } from '../device/device.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import type { PlanParts } from '../layers/recorded-model.js';
import type { StageGraph } from '../model/values.js';

/** A device, and what of a model it computes: all, some layers, or a shard of each. */
export interface Stage {
  readonly device: Device;
  readonly graph: StageGraph;
  readonly forward: ForwardPass;
  /** On its device; of one that samples up to the sampled tokens. */
  readonly plan: number;
  /** The same in two, for steps whose rows are masked; of a device that does not sample absent. */
  readonly planParts?: PlanParts | undefined;
}

/** Rows that go through all devices. */
export interface Pass {
  /** The gateway's number of the step, for the fault record. */
  readonly step: number;
  readonly counts: Int32Array;
  readonly recurring: boolean;
  /** The step tables, as far as they are in use. */
  readonly input: Int32Array;
  /** Destination of the answer. */
  readonly answer: Int32Array;
  readonly answerWords: number;
  /** True if the rows' tokens are sampled; else somebody samples them later. */
  readonly isSampled: boolean;
  /** Slots whose latest token the rows need and the host does not know. */
  readonly awaited: Iterable<number>;
  /** Slots that sample. */
  readonly sampling: Iterable<number>;
  /** True if the step ends with these rows. */
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

/** Sampler of the rows that were computed last. */
export interface SamplingPass extends Pick<Pass, 'step' | 'counts' | 'answer' | 'answerWords' | 'sampling'> {
  /** The masks as {@link StepMasks} lays them out. */
  readonly masks: Uint8Array;
}

/** When a pass has ended. */
export interface PassEnd {
  /** Microseconds of each stage, without its waits for others. */
  readonly stageUs: readonly number[];
}

/** The devices of a model, and how rows go through them. */
export interface ModelDevices {
  readonly stages: readonly Stage[];
  /** The one whose logits and answers count. */
  readonly last: Stage;
  /** Number of parts of a step that may be in flight at once. */
  readonly depth: number;
  /** Queues rows on every device. */
  run(pass: Pass): Promise<PassEnd>;
  /** Samples the rows that were computed last. @returns microseconds */
  sample(pass: SamplingPass): Promise<number>;
  /** Writes to the slots of every device, and does nothing else. */
  write(input: Int32Array, counts: Int32Array): Promise<number>;
}

export const NO_BYTES = new Uint8Array(0);

/** So many words of an answer. */
export const bytesOf = (answer: Int32Array, words: number): Uint8Array =>
  words === 0 ? NO_BYTES : new Uint8Array(answer.buffer, answer.byteOffset, 4 * words);

/** Writers to the slots of a stage. */
export const slotWrites = ({ forward, plan }: Stage, input: Int32Array, counts: Int32Array): NativeStep => ({
  ...{ plan, counts, recurring: false, input: new Uint8Array(input.buffer) },
  deviceInput: forward.tables.device.address,
  output: NO_BYTES,
  deviceOutput: forward.tables.output.address,
});

/** Takes the memory of any step at once: one that waits for another device's must not keep that one from being queued. */
export function reserveSteps({ native }: Device, { tables, masks }: ForwardPass): void {
  native.reserve(4 * Math.max(tables.words, masks.device.elements), 4 * tables.answer.elements);
}

/** Results of all; if some fail, the first failure: those behind it fail with it. */
export async function firstFailure(running: readonly Promise<number>[]): Promise<number[]> {
  const ends = await Promise.allSettled(running);
  return ends.map((end) => {
    if (end.status === 'rejected') throw end.reason;
    return end.value;
  });
}
