import { AttendedClock } from '../shared/attended-clock.js';
import type { ExecuteRequest, SlotOutput } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { ExecuteResponse } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { Pace } from '../shared/pace.js';
import { StepWatch } from '../shared/step-watch.js';
import { protocolError, SlotTable } from './cache/slots.js';
import type { Device } from './device/device.js';
import { countsOf } from './graph-buckets.js';
import {
  ATTENTION_SPLIT,
  OUTPUT_NON_FINITE,
  OUTPUT_WORDS,
  splitsContexts,
  TOP_LOGPROBS_MAX,
  tileRows,
} from './kernels/index.js';
import type { LoadedModel } from './loaded-model.js';
import {
  COUNT_DRAWS,
  COUNT_PROMPT_ROWS,
  COUNT_SAMPLES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  COUNT_WRITES,
  STEP_COUNTS,
} from './model/step-counts.js';
import { OUTPUT_HEADER } from './model/step-tables.js';

/** Host memory of one step under way. */
interface Staging {
  /** The step tables as {@link StepTables} lays them out. */
  readonly input: Int32Array;
  /** What the step's copy brings back: a header, and `output` behind it. */
  readonly answer: Int32Array;
  /** `[max_sequences, OUTPUT_WORDS]` */
  readonly output: Int32Array;
  readonly outputFloats: Float32Array;
}

/** Steps that may be queued at once: one runs, one waits, and one more is being answered. */
const MAX_IN_FLIGHT = 3;

/** Runs the steps of one epoch, in the order they are submitted. */
export class StepRunner {
  private readonly slots: SlotTable;
  private readonly idle: Staging[];
  private readonly counts = new Int32Array(STEP_COUNTS);
  /** Rows of prompts of the step that is being filled in, whose log probabilities are asked for. */
  private readonly promptRows: { slot: number; row: number; target: number; top: number }[] = [];
  /** Rows of one slot that attention takes together. */
  private readonly tileRows: number;
  /** What goes before the step that is being filled in. */
  private readonly ahead: Promise<number>[] = [];
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
    const { limits, tables } = model.forward;
    this.tileRows = tileRows(model.forward.model, model.forward.cache.type) ?? 1;
    this.slots = new SlotTable(limits, model.forward.model.vocabularySize);
    this.idle = Array.from({ length: MAX_IN_FLIGHT }, () => {
      const answer = new Int32Array(OUTPUT_HEADER + limits.maxSequences * OUTPUT_WORDS);
      const output = answer.subarray(OUTPUT_HEADER);
      const outputFloats = new Float32Array(answer.buffer, OUTPUT_HEADER * 4);
      return { input: new Int32Array(tables.words), answer, output, outputFloats };
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
   * @throws RocmForgeError `EXECUTOR_PROTOCOL` at once for a step that breaks the protocol; slots that earlier parts of
   *         the same frame changed stay changed, so the epoch must end
   * @returns its results, rejected when the device fails; with `MODEL_FILE_CHANGED` when the weights that the host reads
   *          from the file are not those any more that were loaded
   */
  async submit(step: ExecuteRequest): Promise<ExecuteResponse> {
    if (step.epoch !== this.epoch) {
      throw protocolError('it is of another epoch');
    }
    if (this.lastStepId !== undefined && step.stepId !== this.lastStepId + 1n) {
      throw protocolError(`number ${step.stepId} after ${this.lastStepId}`);
    }
    this.checkWeights();
    const staging = this.idle.pop();
    if (staging === undefined) throw protocolError(`more than ${MAX_IN_FLIGHT} steps are under way`);
    this.lastStepId = step.stepId;
    try {
      const { plan, forward } = this.model;
      const inputWords = this.fill(step, staging.input);
      const samples = this.counts[COUNT_SAMPLES] as number;
      const recurring = this.isRecurring(step) && this.fillUp(staging.input);
      // What the outputs mean is settled now: a later frame may close these slots before this step has run.
      const asked = step.slices.filter((slice) => slice.sample).map((slice) => this.slots.logprobsOf(slice.slot));
      const prompts = this.promptRows.splice(0);
      this.watch.begin(this.counts[COUNT_TOKENS] as number);
      const running = this.device.native.run({
        plan,
        step: Number(BigInt.asUintN(53, step.stepId)),
        counts: this.counts,
        recurring,
        input: new Uint8Array(staging.input.buffer, 0, inputWords * 4),
        deviceInput: forward.tables.device.address,
        output: new Uint8Array(
          staging.answer.buffer,
          0,
          samples > 0 ? 4 * (OUTPUT_HEADER + samples * OUTPUT_WORDS) : 0,
        ),
        deviceOutput: forward.tables.answer.address,
      });
      const ahead = this.ahead.splice(0);
      // Both use this step's memory until they have ended; the device runs them in order.
      const deviceUs = await running.finally(() => this.watch.end());
      await Promise.all(ahead);
      this.checkWeights();
      this.stepsDone += 1;
      this.lastStepAt = performance.now();
      const outputs: SlotOutput[] = [];
      for (const slice of step.slices) {
        if (!slice.sample) continue;
        const index = outputs.length;
        outputs.push(readOutput(staging, index, slice.slot, asked[index] as number));
      }
      const promptOutputs = prompts.map(({ slot, top }, i) => readOutput(staging, outputs.length + i, slot, 1 + top));
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

  /** Applies the step to the slots and writes its tables. @returns words of the tables in use */
  private fill(step: ExecuteRequest, words: Int32Array): number {
    const { limits, tables } = this.model.forward;
    const { offsets } = tables;
    let writes = 0;
    const write = (index: number, value: number): void => {
      if (writes === tables.maxWrites) {
        this.writeAhead(words.slice(0, offsets.writePairs + 2 * writes), writes);
        writes = 0;
      }
      words[offsets.writePairs + 2 * writes] = index;
      words[offsets.writePairs + 2 * writes + 1] = value;
      writes += 1;
    };
    for (const slot of step.closes) this.slots.close(slot);
    for (const slice of step.slices) this.slots.advance(slice, write);
    for (const open of step.opens) this.slots.open(open, write);
    for (const append of step.appends) this.slots.append(append, write);

    let row = 0;
    let samples = 0;
    let furthest = 0;
    let tiles = 0;
    const seen = new Set<number>();
    for (const slice of step.slices) {
      if (seen.has(slice.slot)) throw protocolError(`two slices of slot ${slice.slot}`);
      seen.add(slice.slot);
      if (row + slice.count > limits.maxStepTokens) throw protocolError(`more than ${limits.maxStepTokens} rows`);
      if (slice.promptLogprobs) {
        const first = row;
        this.slots.promptRows(slice, (index, target, top) => {
          this.promptRows.push({ slot: slice.slot, row: first + index, target, top });
        });
      }
      this.slots.rows(slice, (tokenId, position) => {
        words[offsets.rowToken + row] = tokenId;
        words[offsets.rowPosition + row] = position;
        words[offsets.rowSlot + row] = slice.slot;
        row += 1;
      });
      furthest = Math.max(furthest, slice.position + slice.count);
      for (let first = row - slice.count; first < row; first += this.tileRows) {
        words[offsets.tiles + 2 * tiles] = first;
        words[offsets.tiles + 2 * tiles + 1] = Math.min(this.tileRows, row - first);
        tiles += 1;
      }
      if (!slice.sample) continue;
      this.slots.beforeSample(slice.slot, slice.position + slice.count, write);
      words[offsets.sampleRow + samples++] = row - 1;
    }
    const isSplit = splitsContexts(row, tiles, this.model.forward.splits?.rows ?? 0);
    if (!isSplit && tiles < row) {
      longestFirst(words.subarray(offsets.tiles, offsets.tiles + 2 * tiles), words, offsets.rowPosition);
    }
    const draws = samples;
    for (const { row: promptRow, target, top } of this.promptRows) {
      if (samples === limits.maxSequences) throw protocolError(`more than ${samples} rows of logits`);
      words[offsets.promptTarget + 2 * samples] = target;
      words[offsets.promptTarget + 2 * samples + 1] = top;
      words[offsets.sampleRow + samples++] = promptRow;
    }
    words[offsets.tokens] = row;
    words[offsets.samples] = samples;
    words[offsets.draws] = draws;
    words[offsets.writes] = writes;
    this.counts[COUNT_TOKENS] = row;
    this.counts[COUNT_SAMPLES] = samples;
    this.counts[COUNT_DRAWS] = draws;
    this.counts[COUNT_PROMPT_ROWS] = samples - draws;
    this.counts[COUNT_WRITES] = writes;
    this.counts[COUNT_SPLITS] = Math.ceil(furthest / ATTENTION_SPLIT);
    this.counts[COUNT_SPLIT_ROWS] = isSplit ? row : 0;
    this.counts[COUNT_TILES] = isSplit ? 0 : tiles;
    return offsets.writePairs + 2 * writes;
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
    if (this.device.isHost || step.slices.length === 0 || this.counts[COUNT_PROMPT_ROWS] !== 0) return false;
    return step.slices.every((slice) => slice.count === 1 && slice.sample);
  }

  /**
   * Rounds the counts up to those of a captured graph, and fills the rows between with the null slot's position 0: they
   * read and write the null block, and nobody reads their results.
   */
  private fillUp(words: Int32Array): true {
    const { limits, tables } = this.model.forward;
    const { offsets } = tables;
    const rows = this.counts[COUNT_TOKENS] as number;
    const bucket = this.model.buckets.of(rows, this.counts[COUNT_SPLITS] as number);
    for (let row = rows; row < bucket.rows; row++) {
      words[offsets.rowToken + row] = 0;
      words[offsets.rowPosition + row] = 0;
      words[offsets.rowSlot + row] = limits.maxSequences;
      words[offsets.sampleRow + row] = row;
      words[offsets.tiles + 2 * row] = row;
      words[offsets.tiles + 2 * row + 1] = 1;
    }
    const writes = this.counts[COUNT_WRITES] as number;
    this.counts.set(countsOf(bucket));
    this.counts[COUNT_WRITES] = writes;
    return true;
  }
}

/**
 * Orders a step's tiles, [first row, rows], by how far their context reaches, the longest first: blocks start in this
 * order, and one that starts last should not run longest.
 */
function longestFirst(tiles: Int32Array, words: Int32Array, rowPosition: number): void {
  // One number a tile, its end and its place: numbers are sorted without a call for each two. Steps have 65,535 rows at most.
  const order = new Float64Array(tiles.length / 2);
  for (let i = 0; i < order.length; i++) {
    const end = (words[rowPosition + (tiles[2 * i] as number)] as number) + (tiles[2 * i + 1] as number);
    order[i] = (2 ** 31 - end) * 2 ** 16 + i;
  }
  order.sort();
  const unordered = tiles.slice();
  for (const [to, key] of order.entries()) {
    const from = 2 * (key % 2 ** 16);
    tiles[2 * to] = unordered[from] as number;
    tiles[2 * to + 1] = unordered[from + 1] as number;
  }
}

function readOutput(
  staging: Staging,
  index: number,
  slot: number,
  /** 0: none; n + 1: the token's and those of the n likeliest. */
  logprobs: number,
): SlotOutput {
  const base = index * OUTPUT_WORDS;
  const token = staging.output[base] as number;
  const logprob = logprobs > 0 ? (staging.outputFloats[base + 1] as number) : 0;
  // Of a prompt's row no token is drawn: its log probability tells.
  const nonFinite = (token & OUTPUT_NON_FINITE) !== 0 || Number.isNaN(logprob);
  const top = nonFinite ? 0 : Math.max(0, logprobs - 1);
  const ids = base + 2;
  const likeliest = ids + TOP_LOGPROBS_MAX;
  return {
    slot,
    tokenId: token & ~OUTPUT_NON_FINITE,
    logprob: nonFinite ? 0 : logprob,
    topIds: Array.from(staging.output.subarray(ids, ids + top)),
    topLogprobs: Array.from(staging.outputFloats.subarray(likeliest, likeliest + top)),
    nonFinite,
  };
}
