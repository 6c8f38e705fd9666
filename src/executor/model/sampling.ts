import { type Allocator, bufferFrom, type Device, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Launch, LaunchCondition, LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { Limits } from './limits.js';
import { BIAS_ENTRIES, type SlotArena } from './slot-layout.js';
import {
  COUNT_ADJUSTED,
  COUNT_DRAWN,
  COUNT_DRAWS,
  COUNT_FILTERED,
  COUNT_MASKED,
  COUNT_PROMPT_ROWS,
  COUNT_SAMPLES,
  COUNT_TOLD,
} from './step-counts.js';
import type { StepMasks } from './step-masks.js';
import type { StepTables } from './step-tables.js';

/** The slots on the device, and where their parts lie. */
export interface Slots {
  readonly buffer: DeviceBuffer;
  readonly arena: SlotArena;
}

/** From logits to tokens: penalties, biases, masks, the draw, and the log probabilities asked for. */
export class Sampling {
  /** The logits of rows with penalties, biases or a mask, `[max_sequences, vocabulary]`. */
  readonly adjusted: DeviceBuffer;
  /** 0, 1, 2, ...: as many as there are sequences. */
  private readonly everySample: DeviceBuffer;
  /** Partial results of the blocks that share a row, `[max_sequences, SAMPLE_PART_WORDS, SAMPLE_PARTS]`. */
  private readonly parts: DeviceBuffer;
  /** State that the blocks that filter a row leave, `[max_sequences, FILTER_WORDS]`. */
  private readonly filters: DeviceBuffer;
  /** The likeliest tokens of each row's parts, `[max_sequences, SAMPLE_PARTS, TOP_LOGPROBS_MAX]`. */
  private readonly likeliest: DeviceBuffer;
  private readonly draws: StepCount;
  private readonly samples: StepCount;
  private readonly maxStepTokens: number;

  constructor(
    private readonly device: Device,
    memory: Allocator,
    private readonly plan: LaunchPlanRecorder,
    private readonly tables: StepTables,
    private readonly masks: StepMasks,
    private readonly slots: Slots,
    { maxSequences, maxStepTokens }: Limits,
    private readonly vocabulary: number,
  ) {
    this.adjusted = memory.allocate('f32', maxSequences * vocabulary);
    this.everySample = memory.upload(Int32Array.from({ length: maxSequences }, (_, i) => i));
    this.parts = memory.allocate('i32', maxSequences * kernels.SAMPLE_PART_WORDS * kernels.SAMPLE_PARTS);
    this.filters = memory.allocate('i32', device.isHost ? 1 : maxSequences * kernels.FILTER_WORDS);
    const likeliest = maxSequences * kernels.SAMPLE_PARTS * kernels.TOP_LOGPROBS_MAX;
    this.likeliest = memory.allocate('i32', device.isHost ? 1 : likeliest);
    this.maxStepTokens = maxStepTokens;
    this.draws = { index: COUNT_DRAWS, max: maxSequences };
    this.samples = { index: COUNT_SAMPLES, max: maxSequences };
  }

  /** Log probabilities are those of the raw logits; tokens are drawn from the adjusted ones. */
  record(logits: DeviceBuffer): void {
    const { plan, tables, vocabulary } = this;
    const { arena, buffer: slots } = this.slots;
    const { historyOffset, historyEntries, biasOffset, slotWords } = arena;
    const history = bufferFrom(slots, historyOffset);
    const biases = bufferFrom(slots, biasOffset);
    const rows = { sample_row: tables.at('sampleRow'), row_slot: tables.at('rowSlot') };
    const row_token = tables.at('rowToken');
    const withSlots = { ...rows, slots, slot_words: slotWords };
    const dims = { slot_count: arena.slots, samples: this.draws, tokens: this.maxStepTokens };
    const sizes = { entries: BIAS_ENTRIES, vocabulary };
    const { adjusted } = this;
    const whereAdjusted = someRow(COUNT_ADJUSTED);
    const whereTold = someRow(COUNT_TOLD);

    if (this.device.isHost) {
      const index = this.everySample;
      const copied = { tokens: this.draws.max, samples: this.draws };
      plan.launch(kernels.gatherRows, { x: logits, y: adjusted, index, hidden: vocabulary }, copied);
    } else {
      plan.launch(kernels.copyAdjusted, { logits, adjusted, ...withSlots, biases, ...sizes }, dims, whereAdjusted);
    }
    plan.launch(
      kernels.penalties,
      { ...withSlots, row_token, logits: adjusted, history, entries: historyEntries, vocabulary },
      dims,
      whereAdjusted,
    );
    plan.launch(kernels.logitBias, { ...rows, logits: adjusted, biases, ...sizes }, dims, whereAdjusted);
    const { rowMask, bits, words } = this.masks;
    plan.launch(
      kernels.tokenMask,
      { logits: adjusted, row_mask: rowMask, masks: bits, mask_words: words, vocabulary },
      { ...dims, masks: this.draws.max },
      someRow(COUNT_MASKED),
    );

    const answer = { output: tables.output, output_words: kernels.OUTPUT_WORDS };
    const drawn = {
      logits,
      adjusted,
      ...withSlots,
      biases,
      parts: this.parts,
      filters: this.filters,
      ...sizes,
      ...answer,
    };
    const launch: Launch = (...launched) => plan.launch(...launched);
    const when = { drawn: someRow(COUNT_DRAWN), filtered: someRow(COUNT_FILTERED) };
    kernels.launchSample(launch, this.device.isHost, { ...drawn, row_position: tables.at('rowPosition') }, dims, when);
    const counted = { ...rows, row_token, draws: tables.at('draws'), history, entries: historyEntries };
    plan.launch(kernels.tokenHistory, { ...counted, ...answer }, dims, whereAdjusted);

    const top = { top_max: kernels.TOP_LOGPROBS_MAX, vocabulary };
    const likely = { ...withSlots, logits, ...top };
    const told = { ...likely, biases, entries: BIAS_ENTRIES, output: tables.output };
    if (this.device.isHost) plan.launch(kernels.logSoftmaxTop, told, dims, whereTold);
    else {
      plan.launch(kernels.likeliestParts, { ...likely, likeliest: this.likeliest }, dims, whereTold);
      plan.launch(kernels.logSoftmaxMerge, { ...told, likeliest: this.likeliest }, dims, whereTold);
    }
    plan.launch(
      kernels.promptLogprobs,
      { logits, draws: tables.at('draws'), target: tables.at('promptTarget'), output: tables.output, ...top },
      { samples: this.samples, prompt_rows: { index: COUNT_PROMPT_ROWS, max: this.samples.max } },
    );
  }
}

/** In steps with a row that needs it. */
const someRow = (index: number): LaunchCondition => ({ count: { index, max: 1 }, atLeast: 1 });
