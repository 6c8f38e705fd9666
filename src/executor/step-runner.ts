import { AttendedClock } from '../shared/attended-clock.js';
import type { ExecuteRequest, Slice } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { ExecuteResponse, SlotOutput } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { Pace } from '../shared/pace.js';
import { StepWatch } from '../shared/step-watch.js';
import { protocolError } from './cache/protocol-error.js';
import type { NativeStep } from './device/addon.js';
import type { Device } from './device/device.js';
import { countsOf } from './graph-buckets.js';
import { OUTPUT_WORDS, SLICE_WORDS } from './kernels/index.js';
import type { LoadedModel } from './loaded-model.js';
import { MaskTable, maskIdsFor, writeMasks } from './mask-table.js';
import { nullStates } from './model/slot-layout.js';
import {
  COUNT_MASKED,
  COUNT_PROMPT_ROWS,
  COUNT_SAMPLES,
  COUNT_SPLITS,
  COUNT_TOKENS,
  COUNT_WRITES,
  STEP_COUNTS,
} from './model/step-counts.js';
import { OUTPUT_HEADER } from './model/step-tables.js';
import { type FilledStep, outputsOf, PENDING, StepFiller } from './step-filler.js';
import { readOutput, type StepOutput } from './step-output.js';

/** Host memory of one step under way. */
interface Staging extends StepOutput {
  /** The step tables as {@link StepTables} lays them out. */
  readonly input: Int32Array;
  /** What the step's copy brings back: a header, and `output` behind it. */
  readonly answer: Int32Array;
  /** The masks as {@link StepMasks} lays them out. */
  readonly masks: Int32Array;
}

/** What is known of a step when it has ended. */
interface StepEnd {
  readonly deviceUs: number;
  /** Slots that nothing was sampled for. */
  readonly late: ReadonlySet<number>;
}

const NOBODY: ReadonlySet<number> = new Set();
const NO_MASKS: ReadonlyMap<number, number> = new Map();

/** For the fault record. */
const stepNumber = (step: ExecuteRequest): number => Number(BigInt.asUintN(53, step.stepId));

/** Steps that may be queued at once: one runs, one waits, and one more is being answered. */
const MAX_IN_FLIGHT = 3;

/** Runs the steps of one epoch, in the order they are submitted. */
export class StepRunner {
  private readonly filler: StepFiller;
  private readonly idle: Staging[];
  /** What goes before the step that is being filled in. */
  private readonly ahead: Promise<number>[] = [];
  private readonly masks: MaskTable;
  /** Resolves when what the step before samples is queued; absent when it is. */
  private awaitingMasks: Promise<void> | undefined;
  /** Steps that were submitted and have not ended. */
  private submitted = 0;
  private readonly watch: StepWatch;
  private stepsDone = 0;
  private lastStepId: bigint | undefined;
  private lastStepAt: number | undefined;

  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    readonly epoch: bigint,
    clock = new AttendedClock(Number.POSITIVE_INFINITY),
  ) {
    this.watch = new StepWatch(new Pace(), clock);
    const { limits, tables, masks } = model.forward;
    this.masks = new MaskTable(maskIdsFor(limits.maxSequences), masks.words);
    this.filler = new StepFiller(model.forward, this.masks, (input, writes) => this.writeAhead(input, writes));
    this.idle = Array.from({ length: MAX_IN_FLIGHT }, () => {
      const answer = new Int32Array(OUTPUT_HEADER + limits.maxSequences * OUTPUT_WORDS);
      const output = answer.subarray(OUTPUT_HEADER);
      const outputFloats = new Float32Array(answer.buffer, OUTPUT_HEADER * 4);
      return {
        input: new Int32Array(tables.words),
        answer,
        output,
        outputFloats,
        masks: new Int32Array(masks.device.elements),
      };
    });
  }

  /** Steps run so far, and milliseconds since the last one ended. */
  get stats(): { readonly steps: number; readonly lastStepAgeMs: number | undefined } {
    return {
      steps: this.stepsDone,
      lastStepAgeMs: this.lastStepAt === undefined ? undefined : performance.now() - this.lastStepAt,
    };
  }

  /**
   * Queues a step behind those submitted before it.
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a step that breaks the protocol; slots that earlier parts of
   *         the same frame changed stay changed, so the epoch must end
   * @returns its results, rejected when the device fails; with `MODEL_FILE_CHANGED` when the weights that the host reads
   *          from the file are not those any more that were loaded
   */
  async submit(step: ExecuteRequest): Promise<ExecuteResponse> {
    if (step.epoch !== this.epoch) throw protocolError('it is of another epoch');
    if (this.submitted === MAX_IN_FLIGHT) throw protocolError(`more than ${MAX_IN_FLIGHT} steps are under way`);
    this.submitted += 1;
    try {
      // Now, before it waits: masks that come meanwhile for the step before may be among these.
      this.masks.add(step.masks);
      if (step.slotMasks.length > 0) this.masks.arrive(step.stepId - 1n, step.slotMasks);
      // What a step's rows sample is queued before anything of the next.
      while (this.awaitingMasks !== undefined) await this.awaitingMasks;
      return await this.run(step);
    } finally {
      this.submitted -= 1;
    }
  }

  /**
   * Takes masks that come without a step.
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL`
   */
  takeMasks({ stepId, masks, slotMasks }: ExecuteRequest): void {
    this.masks.add(masks);
    if (slotMasks.length > 0) this.masks.arrive(stepId, slotMasks);
  }

  private async run(step: ExecuteRequest): Promise<ExecuteResponse> {
    if (this.lastStepId !== undefined && step.stepId !== this.lastStepId + 1n) {
      throw protocolError(`number ${step.stepId} after ${this.lastStepId}`);
    }
    this.checkWeights();
    this.lastStepId = step.stepId;
    this.masks.begin(step.stepId);
    const staging = this.idle.pop() as Staging;
    try {
      const filled = this.filler.fill(step, staging.input);
      const samples = this.filler.counts[COUNT_SAMPLES] as number;
      // What the outputs mean is settled now: a later frame may close these slots before this step has run.
      const sampled = step.slices.flatMap((slice) => Array<Slice>(outputsOf(slice)).fill(slice));
      const asked = sampled.map(({ slot }) => ({
        ...this.filler.slots.logprobsOf(slot),
        tell: this.filler.slots.sampledBy(slot),
      }));
      this.watch.begin(this.filler.counts[COUNT_TOKENS] as number);
      const isMasked = filled.masked.length > 0;
      const running = isMasked ? this.runMasked(step, staging, filled) : this.runWhole(step, staging, filled);
      const ahead = this.ahead.splice(0);
      // Both use this step's memory until they have ended; the device runs them in order.
      const { deviceUs, late } = await running.finally(() => this.watch.end());
      await Promise.all(ahead);
      this.checkWeights();
      this.stepsDone += 1;
      this.lastStepAt = performance.now();
      const outputs = sampled.map(({ slot }, index): SlotOutput => {
        if (late.has(slot)) return SlotOutput.fromPartial({ slot, late: true });
        const { logprobs, given, tell } = asked[index] as (typeof asked)[number];
        const output = readOutput(staging, index, slot, logprobs, given);
        tell(output.tokenId);
        return output;
      });
      const promptOutputs = filled.promptRows.map(({ slot, top }, i) =>
        readOutput(staging, outputs.length + i, slot, 1 + top),
      );
      return ExecuteResponse.fromPartial({
        stepId: step.stepId,
        epoch: step.epoch,
        outputs,
        promptOutputs,
        deviceUs: Math.round(deviceUs),
        saturatedActivations: samples > 0 ? this.newlySaturated(staging.answer[0] as number) : 0,
      });
    } finally {
      this.idle.push(staging);
    }
  }

  /** Runs the step that was filled in, all at once. */
  private async runWhole(step: ExecuteRequest, staging: Staging, { words }: FilledStep): Promise<StepEnd> {
    const { plan, forward } = this.model;
    const answer = this.answerOf(staging);
    const recurring = this.isRecurring(step) && this.fillUp(staging.input);
    const deviceUs = await this.device.native.run({
      plan,
      step: stepNumber(step),
      counts: this.filler.counts,
      recurring,
      input: new Uint8Array(staging.input.buffer, 0, words * 4),
      deviceInput: forward.tables.device.address,
      ...answer,
    });
    return { deviceUs, late: NOBODY };
  }

  /**
   * Runs the step that was filled in up to its logits, and samples when the masks of its rows are there. The device runs what
   * was queued before meanwhile; nothing on it ever waits.
   */
  private async runMasked(step: ExecuteRequest, staging: Staging, { words, masked }: FilledStep): Promise<StepEnd> {
    const { planParts, forward } = this.model;
    const counts = this.filler.counts.slice();
    const part = { step: stepNumber(step), counts, recurring: false };
    let resolve = (): void => undefined;
    const awaiting = new Promise<void>((resolved) => {
      resolve = resolved;
    });
    this.awaitingMasks = awaiting;
    const queued = (): void => {
      // It may be the next step's by now.
      if (this.awaitingMasks === awaiting) this.awaitingMasks = undefined;
      resolve();
    };
    try {
      const computing = this.device.native.run({
        ...part,
        plan: planParts.forward,
        input: new Uint8Array(staging.input.buffer, 0, words * 4),
        deviceInput: forward.tables.device.address,
        output: new Uint8Array(0),
        deviceOutput: forward.tables.output.address,
      });
      const answer = this.answerOf(staging);
      const pending = masked.filter(({ mask }) => mask === PENDING).map(({ slot }) => slot);
      const isAlone = pending.length === step.slices.length;
      // When the forward pass fails, so does this.
      const came = pending.length === 0 ? NO_MASKS : await this.masks.wait(step.stepId, pending, computing, isAlone);
      const late = new Set<number>();
      const rows = masked.map(({ slot, position, sample, mask }) => {
        const id = mask === PENDING ? came.get(slot) : mask;
        if (id !== undefined) return { sample, mask: this.masks.get(id) };
        late.add(slot);
        // Of a row that is void the missing token is one before.
        if (mask === PENDING) this.filler.slots.missed(slot, position);
        return { sample, mask: undefined };
      });
      counts[COUNT_MASKED] = 1;
      const sampling = this.device.native.run({
        ...part,
        plan: planParts.sampling,
        input: writeMasks(forward.masks, staging.masks, rows),
        deviceInput: forward.masks.device.address,
        joins: true,
        ...answer,
      });
      queued();
      const [computeUs, samplingUs] = await Promise.all([computing, sampling]);
      return { deviceUs: computeUs + samplingUs, late };
    } finally {
      queued();
    }
  }

  /** Where the step's answer goes; of a step that samples nothing there is none. */
  private answerOf(staging: Staging): Pick<NativeStep, 'output' | 'deviceOutput'> {
    const samples = this.filler.counts[COUNT_SAMPLES] as number;
    const words = samples > 0 ? OUTPUT_HEADER + samples * OUTPUT_WORDS : 0;
    return {
      output: new Uint8Array(staging.answer.buffer, 0, 4 * words),
      deviceOutput: this.model.forward.tables.answer.address,
    };
  }

  /** @param count of all steps, modulo 2³² */
  private newlySaturated(count: number): number {
    const { tables } = this.model.forward;
    const more = (count - tables.saturatedSoFar) >>> 0;
    tables.saturatedSoFar = count;
    return more;
  }

  /** On the host, weights are where the file is mapped: no token of others is handed out. */
  private checkWeights(): void {
    if (this.device.isHost) this.model.weights.checkFiles();
  }

  /** How long the oldest step has been under way, when that is too long; see {@link StepWatch}. */
  overdueMs(floorMs: number): number | undefined {
    return this.watch.overdueMs(floorMs);
  }

  /** Has the device write to slots, and do nothing else, before the step that is being filled in: its tables are full. */
  private writeAhead(input: Int32Array, writes: number): void {
    const { plan, forward } = this.model;
    const { offsets, device } = forward.tables;
    input.fill(0, 0, offsets.rowToken);
    input[offsets.writes] = writes;
    const counts = new Int32Array(STEP_COUNTS);
    counts[COUNT_WRITES] = writes;
    const running = this.device.native.run({
      plan,
      counts,
      recurring: false,
      input: new Uint8Array(input.buffer),
      deviceInput: device.address,
      output: new Uint8Array(0),
      deviceOutput: forward.tables.output.address,
    });
    // Its failure is told with the step's; a frame that is refused further on has no step, and must not leave one unhandled.
    running.catch(() => undefined);
    this.ahead.push(running);
  }

  /** Whether a step is of a kind that comes again and again on a GPU: one token of each of some sequences. */
  private isRecurring(step: ExecuteRequest): boolean {
    if (this.device.isHost || step.slices.length === 0 || this.filler.counts[COUNT_PROMPT_ROWS] !== 0) return false;
    return step.slices.every((slice) => slice.sample && slice.count === outputsOf(slice));
  }

  /**
   * Rounds the counts up to those of a captured graph, and fills the rows between with the null slot's position 0: they
   * read and write the null block, and nobody reads their results.
   */
  private fillUp(words: Int32Array): true {
    const { limits, tables } = this.model.forward;
    const { offsets } = tables;
    const rows = this.filler.counts[COUNT_TOKENS] as number;
    const { source, target } = nullStates(limits);
    const bucket = this.model.buckets.of(rows, this.filler.counts[COUNT_SPLITS] as number);
    for (let row = rows; row < bucket.rows; row++) {
      words[offsets.rowToken + row] = 0;
      words[offsets.rowPosition + row] = 0;
      words[offsets.rowSlot + row] = limits.maxSequences;
      words[offsets.sampleRow + row] = row;
      words[offsets.tiles + 2 * row] = row;
      words[offsets.tiles + 2 * row + 1] = 1;
      if (!limits.isRecurrent) continue;
      words[offsets.rowSlice + row] = row;
      words.set([row, 1, source, target], offsets.slices + SLICE_WORDS * row);
    }
    const writes = this.filler.counts[COUNT_WRITES] as number;
    this.filler.counts.set(countsOf(bucket));
    this.filler.counts[COUNT_WRITES] = writes;
    return true;
  }
}
