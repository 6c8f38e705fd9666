// One file because all of it is in which order the steps of an epoch, their parts and their masks are queued.

import type { ExecuteRequest, Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { ExecuteResponse, SlotOutput } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { StallTolerantClock } from '../../shared/stall-tolerant-clock.js';
import { StepDeadline } from '../../shared/step-deadline.js';
import { StepWatch } from '../../shared/step-watch.js';
import type { Device } from '../device/device.js';
import { OUTPUT_WORDS } from '../kernels/index.js';
import type { LoadedModel } from '../load/loaded-model.js';
import {
  COUNT_DRAWS,
  COUNT_HIDDEN,
  COUNT_MASKED,
  COUNT_POOLED,
  COUNT_SAMPLES,
  COUNT_STATES,
  COUNT_TOKENS,
  COUNT_WRITES,
  STEP_COUNTS,
} from '../model/step-counts.js';
import { OUTPUT_HEADER } from '../model/step-tables.js';
import type { Pass } from '../parallel/model-devices.js';
import { headerOf } from '../parallel/pipeline.js';
import { MaskTable, maskIdsFor, writeMasks } from './mask-table.js';
import { type MicroBatch, microBatches } from './micro-batches.js';
import { Predictor } from './prediction.js';
import { protocolError } from './protocol-error.js';
import { filledUp, isRecurring } from './recurring-steps.js';
import type { ReturnedRows } from './returned-slices.js';
import { hasSlotWork, queueChecksums, queueOpenChecksums } from './step-checksums.js';
import { type FilledStep, outputsOf, PENDING, StepFiller } from './step-filler.js';
import { readOutput } from './step-output.js';
import { gatherAnswer, newly, type Part, passUs, type Staging } from './step-staging.js';

/** Result of a step that has ended. */
interface StepEnd {
  readonly deviceUs: number;
  readonly saturated: number;
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
  /** Work that goes before the step that is being filled in. */
  private readonly ahead: Promise<number>[] = [];
  private readonly masks: MaskTable;
  /** Resolves when what the step before samples is queued; absent when it is. */
  private awaitingMasks: Promise<void> | undefined;
  /** Steps that were submitted and have not ended. */
  private submitted = 0;
  /** Undefined where the model has no prediction block. */
  private readonly predictor: Predictor | undefined;
  private readonly watch: StepWatch;
  private stepsDone = 0;
  private lastStepId: bigint | undefined;
  private lastStepAt: number | undefined;
  /** Rows of logits that the device holds of the step submitted last: those of its last part. */
  heldLogits = 0;

  /** @param hasSnapshots whether an epoch before this one has written snapshots that are still there, or can be copied there */
  constructor(
    private readonly device: Device,
    private readonly model: LoadedModel,
    readonly epoch: bigint,
    clock = new StallTolerantClock(Number.POSITIVE_INFINITY),
    hasSnapshots = false,
  ) {
    this.watch = new StepWatch(new StepDeadline(), clock);
    const { limits, tables, masks } = model.forward;
    this.masks = new MaskTable(maskIdsFor(limits.maxSequences), masks.words);
    const writeAhead = (input: Int32Array, writes: number) => this.writeAhead(input, writes);
    this.filler = new StepFiller(model.forward, this.masks, model.splits, writeAhead, hasSnapshots);
    this.predictor = model.prediction && new Predictor(device, model.prediction);
    const headers = model.pipeline.stages.length * OUTPUT_HEADER;
    const part = (): Part => ({
      input: new Int32Array(tables.words),
      answer: new Int32Array(headers + tables.answer.elements),
    });
    // States of a slot go from one slice to the next, which a cut would have to follow.
    const parts = limits.isRecurrent ? 1 : model.pipeline.depth;
    this.idle = Array.from({ length: MAX_IN_FLIGHT }, () => {
      const { input, answer } = part();
      const output = answer.subarray(OUTPUT_HEADER);
      const outputFloats = new Float32Array(answer.buffer, OUTPUT_HEADER * 4);
      const masked = new Int32Array(masks.device.elements);
      return {
        input,
        answer,
        output,
        outputFloats,
        masks: masked,
        parts: parts > 1 ? Array.from({ length: parts }, part) : [],
      };
    });
  }

  /** True if no step is under way. */
  get isIdle(): boolean {
    return this.submitted === 0;
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
    if (step.epoch !== this.epoch) throw protocolError('it belongs to another epoch');
    if (this.submitted === MAX_IN_FLIGHT) throw protocolError(`more than ${MAX_IN_FLIGHT} steps are under way`);
    this.submitted += 1;
    try {
      // Now, before it waits: masks that come meanwhile for the step before may be among these.
      this.masks.add(step.masks);
      if (step.slotMasks.length > 0) this.masks.arrive(step.stepId - 1n, step.slotMasks);
      // Sampling of a step's rows is queued before anything of the next.
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
      const counts = this.filler.counts.slice();
      const isPredicted = step.slices.some(({ predictedTokens }) => predictedTokens !== undefined);
      if (isPredicted && this.predictor === undefined) {
        throw protocolError('predicted tokens of a model without a prediction block');
      }
      const predicted = isPredicted ? this.predictor?.slicesOf(step, this.filler.slots) : undefined;
      // The outputs' meaning is settled now: a later frame may close these slots before this step has run.
      const sampled = step.slices.flatMap((slice) => Array<Slice>(outputsOf(slice)).fill(slice));
      const asked = sampled.map(({ slot }) => ({
        ...this.filler.slots.logprobsOf(slot),
        tell: this.filler.slots.sampledBy(slot),
      }));
      // Queued before the slices, which may write to these blocks for another sequence.
      const summing = queueChecksums(step, this.model);
      // A failure is reported with the step's.
      summing.catch(() => undefined);
      this.watch.begin(this.filler.counts[COUNT_TOKENS] as number);
      const running = this.runFilled(step, staging, filled);
      const summingOpen = queueOpenChecksums(step, this.model);
      summingOpen.catch(() => undefined);
      const ahead = this.ahead.splice(0);
      // All use this step's memory until they have ended; the device runs them in order.
      const ended = running.then(async (end) => {
        await Promise.all(ahead);
        return { ...end, ...(await summing), openChecksums: await summingOpen };
      });
      const { deviceUs, late, saturated, checksums, openChecksums, notCopied } = await ended.finally(() =>
        this.watch.end(),
      );
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
      const predicting = predicted && this.predictor?.predict(staging.input, counts, predicted, outputs);
      const predictUs = Math.round((await predicting) ?? 0);
      return ExecuteResponse.fromPartial({
        stepId: step.stepId,
        epoch: step.epoch,
        outputs,
        promptOutputs,
        deviceUs: Math.round(deviceUs) + predictUs,
        predictUs,
        saturatedActivations: samples > 0 ? saturated : 0,
        hiddenStates: filled.returned.map((rows) => this.returnedRows(staging, rows)),
        checksums,
        openChecksums,
        notCopied,
      });
    } finally {
      this.idle.push(staging);
    }
  }

  private runFilled(step: ExecuteRequest, staging: Staging, filled: FilledStep): Promise<StepEnd> {
    if (!hasSlotWork(step)) return Promise.resolve({ deviceUs: 0, saturated: 0, late: NOBODY });
    return filled.masked.length > 0 ? this.runMasked(step, staging, filled) : this.runWhole(step, staging, filled);
  }

  /** Runs the step that was filled in: all at once, or where a model is split in as many parts as keep its devices busy. */
  private async runWhole(step: ExecuteRequest, staging: Staging, { words }: FilledStep): Promise<StepEnd> {
    const { pipeline, forward } = this.model;
    const { counts } = this.filler;
    const recurs = !this.device.isHost && isRecurring(step, counts);
    const { offsets } = forward.tables;
    const least = this.device.isHost ? LEAST_ROWS.host : LEAST_ROWS.gpu;
    const room = staging.parts.map(({ input }) => input);
    const whole = { input: staging.input, words, counts: counts.slice() };
    // Hidden states are behind all outputs of a step: such a step is not cut.
    const parts = (whole.counts[COUNT_STATES] as number) > 0 ? 1 : staging.parts.length;
    const batches = microBatches(whole, offsets, parts, least, room);
    const isCut = batches.length > 1;
    this.heldLogits = batches.at(-1)?.counts[COUNT_SAMPLES] as number;
    const passes = batches.map((batch, i) => {
      const { answer } = isCut ? (staging.parts[i] as Part) : staging;
      const slots = this.slotsOf(batch);
      const rows = recurs ? filledUp(this.model, batch) : batch.counts;
      return pipeline.run({
        step: stepNumber(step),
        counts: rows,
        recurring: recurs,
        input: batch.input.subarray(0, batch.words),
        answer,
        answerWords: this.answerWords(batch.counts),
        isSampled: true,
        ...slots,
        isFirst: i === 0,
        isLast: i === batches.length - 1,
      });
    });
    const ends = await Promise.allSettled(passes);
    const stageUs = ends.map((end) => {
      if (end.status === 'rejected') throw end.reason;
      return end.value.stageUs;
    });
    let saturated = 0;
    for (const [i, batch] of batches.entries()) {
      const { answer } = isCut ? (staging.parts[i] as Part) : staging;
      if ((batch.counts[COUNT_SAMPLES] as number) === 0) continue;
      saturated += this.newlySaturated(answer);
      // Not the filler’s counts: those are the next step’s by now.
      if (isCut) gatherAnswer(staging, answer, batch, whole.counts[COUNT_DRAWS] as number);
    }
    return { deviceUs: passUs(stageUs), saturated, late: NOBODY };
  }

  /** Words that a step's copy brings back: none if it samples nothing. */
  private answerWords(counts: Int32Array): number {
    const { tables, returnedHiddenSize } = this.model.forward;
    const samples = counts[COUNT_SAMPLES] as number;
    const hidden = counts[COUNT_HIDDEN] as number;
    const pooled = counts[COUNT_POOLED] as number;
    if (hidden > 0) return tables.hiddenOffset + hidden * returnedHiddenSize;
    if (pooled > 0) return tables.pooledOffset + pooled * returnedHiddenSize;
    return samples > 0 ? OUTPUT_HEADER + samples * OUTPUT_WORDS : 0;
  }

  /** Slots whose latest token rows need from the device, and those that sample. */
  private slotsOf({ input, counts }: Pick<MicroBatch, 'input' | 'counts'>): Pick<Pass, 'awaited' | 'sampling'> {
    const { forward, pipeline } = this.model;
    if (pipeline.stages.length === 1) return { awaited: [], sampling: [] };
    const { offsets } = forward.tables;
    const awaited = new Set<number>();
    for (let row = 0; row < (counts[COUNT_TOKENS] as number); row++) {
      if (input[offsets.rowToken + row] === -1) awaited.add(input[offsets.rowSlot + row] as number);
    }
    const rows = input.subarray(offsets.sampleRow, offsets.sampleRow + (counts[COUNT_DRAWS] as number));
    return { awaited, sampling: Array.from(rows, (row) => input[offsets.rowSlot + row] as number) };
  }

  /**
   * Runs the step that was filled in up to its logits, and samples when the masks of its rows are there. The device runs what
   * was queued before meanwhile; nothing on it ever waits.
   */
  private async runMasked(step: ExecuteRequest, staging: Staging, { words, masked }: FilledStep): Promise<StepEnd> {
    const { forward, pipeline } = this.model;
    const counts = this.filler.counts.slice();
    const { awaited, sampling } = this.slotsOf({ input: staging.input, counts });
    const part = { step: stepNumber(step), counts, answer: staging.answer };
    let resolve = (): void => undefined;
    const awaiting = new Promise<void>((resolved) => {
      resolve = resolved;
    });
    this.awaitingMasks = awaiting;
    this.heldLogits = counts[COUNT_SAMPLES] as number;
    const queued = (): void => {
      // It may be the next step's by now.
      if (this.awaitingMasks === awaiting) this.awaitingMasks = undefined;
      resolve();
    };
    try {
      const computing = pipeline.run({
        ...part,
        recurring: false,
        input: staging.input.subarray(0, words),
        answerWords: 0,
        isSampled: false,
        awaited,
        sampling: [],
        isFirst: true,
        isLast: false,
      });
      const computed = computing.then(({ stageUs }) => passUs([stageUs]));
      // Its failure is told below.
      computed.catch(() => undefined);
      const pending = masked.filter(({ mask }) => mask === PENDING).map(({ slot }) => slot);
      const isAlone = pending.length === step.slices.length;
      // When the forward pass fails, so does this.
      const came = pending.length === 0 ? NO_MASKS : await this.masks.wait(step.stepId, pending, computed, isAlone);
      const late = new Set<number>();
      const rows = masked.map(({ slot, position, sample, mask }) => {
        const id = mask === PENDING ? came.get(slot) : mask;
        if (id !== undefined) return { sample, mask: this.masks.get(id) };
        late.add(slot);
        // The missing token of a void row is one before.
        if (mask === PENDING) this.filler.slots.missed(slot, position);
        return { sample, mask: undefined };
      });
      counts[COUNT_MASKED] = 1;
      const sampled = pipeline.sample({
        ...part,
        // A step that samples nothing has no answer.
        answerWords: this.answerWords(counts),
        masks: writeMasks(forward.masks, staging.masks, rows),
        sampling,
      });
      queued();
      const [computeUs, samplingUs] = await Promise.all([computed, sampled]);
      // Only the last stage's counts are known; those of the others arrive with the next step that brings their headers.
      const saturated = newly(forward.tables, staging.answer[0] as number);
      return { deviceUs: computeUs + samplingUs, saturated, late };
    } finally {
      queued();
    }
  }

  /** A copy of hidden states or scores that a step has brought back. */
  private returnedRows({ answer }: Staging, { of, first, count }: ReturnedRows): Buffer {
    const { tables, returnedHiddenSize, labels } = this.model.forward;
    const size = of === 'scores' ? labels : returnedHiddenSize;
    const from = tables[`${of}Offset`] + first * size;
    const words = answer.slice(from, from + count * size);
    return Buffer.from(words.buffer);
  }

  /** Activations beyond a range, on all stages, since the last answer. */
  private newlySaturated(answer: Int32Array): number {
    const { stages } = this.model.pipeline;
    return stages.reduce((sum, { forward }, stage) => {
      const at = stage === stages.length - 1 ? 0 : headerOf({ answer }, stage);
      return sum + newly(forward.tables, answer[at] as number);
    }, 0);
  }

  /** On the host, weights are where the file is mapped: no token of others is handed out. */
  private checkWeights(): void {
    if (this.model.weights.readsFile) this.model.weights.checkFiles();
  }

  /** Milliseconds that the oldest step has been in flight, if that is too long; see {@link StepWatch}. */
  overdueMs(floorMs: number): number | undefined {
    return this.watch.overdueMs(floorMs);
  }

  /** Has the device write to slots, and do nothing else, before the step that is being filled in: its tables are full. */
  private writeAhead(input: Int32Array, writes: number): void {
    const { pipeline, forward } = this.model;
    const { offsets } = forward.tables;
    input.fill(0, 0, offsets.rowToken);
    input[offsets.writes] = writes;
    const counts = new Int32Array(STEP_COUNTS);
    counts[COUNT_WRITES] = writes;
    const running = pipeline.write(input, counts);
    // Its failure is told with the step's; a frame that is refused further on has no step, and must not leave one unhandled.
    running.catch(() => undefined);
    this.ahead.push(running);
  }
}

/** Rows of which a part of a step has at least so many: of fewer a GPU reads its weights again for nothing. */
const LEAST_ROWS = { host: 8, gpu: 128 } as const;
