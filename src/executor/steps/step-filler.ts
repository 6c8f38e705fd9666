import { type ExecuteRequest, Pooling, type Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { ENCODER_TILE_ROWS, NO_SPLITS, SLICE_WORDS } from '../kernels/index.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import type { AttentionSplits } from '../layers/paged-attention.js';
import { sliceWords } from '../model/slot-layout.js';
import { needs, STEP_COUNTS } from '../model/step-counts.js';
import type { MaskTable } from './mask-table.js';
import { protocolError } from './protocol-error.js';
import { type ReturnedRows, ReturnedSlices } from './returned-slices.js';
import { isDrafted } from './slot-states.js';
import { SlotTable } from './slots.js';
import { StepWriter } from './step-writer.js';
import { words } from './words.js';

/** A sampled row whose slot is constrained. */
export interface MaskedRow {
  readonly slot: number;
  /** Log probabilities of the token that it samples. */
  readonly position: number;
  /** Which of the step's sampled rows. */
  readonly sample: number;
  /** Its mask's id; or that it comes later, or never. */
  readonly mask: number | typeof PENDING | undefined;
}

export const PENDING = Symbol('pending');

const NO_BYTES = new Uint8Array(0);

/** A row of a prompt whose log probability is asked for. */
interface PromptRow {
  readonly slot: number;
  readonly row: number;
  readonly target: number;
  readonly top: number;
}

/** A step whose tables are written. */
export interface FilledStep {
  /** Used entries of the tables. */
  readonly words: number;
  readonly promptRows: readonly PromptRow[];
  /** Rows that each slice returns, in order, of those that return hidden states or scores. */
  readonly returned: readonly ReturnedRows[];
  /** Rows whose slots are constrained. */
  readonly masked: readonly MaskedRow[];
}

/** Tokens that are sampled for a slice. */
export function outputsOf({ sample, count, tokenIds }: Pick<Slice, 'sample' | 'count' | 'tokenIds'>): number {
  if (!sample) return 0;
  return tokenIds === undefined ? 1 : count;
}

/** Turns frames into the tables that kernels read, and keeps the slots that they speak of. */
export class StepFiller {
  readonly slots: SlotTable;
  /** Those of the step that was filled in last. */
  readonly counts = new Int32Array(STEP_COUNTS);
  private readonly writer: StepWriter;
  private promptRows: PromptRow[] = [];
  private readonly returned: ReturnedSlices;
  private masked: MaskedRow[] = [];
  /** Rows of one slot that attention takes together. */
  private readonly tileRows: number;

  /**
   * @param splits how attention splits contexts; undefined where it does not
   * @param hasSnapshots whether an epoch before this one has written snapshots that are still there
   * @param writeAhead has the device make these writes to slots before the step: its tables are full of them
   */
  constructor(
    private readonly forward: ForwardPass,
    private readonly masks: MaskTable,
    private readonly splits: AttentionSplits | undefined,
    writeAhead: (input: Int32Array, writes: number) => void,
    hasSnapshots: boolean,
  ) {
    const { limits, tables, model } = forward;
    this.slots = new SlotTable(limits, model.vocabularySize, hasSnapshots);
    this.writer = new StepWriter(tables, limits, writeAhead);
    this.returned = new ReturnedSlices(forward);
    this.tileRows = limits.isEncoder ? ENCODER_TILE_ROWS : (splits?.tileRows ?? 1);
  }

  /**
   * Applies a step to the slots and writes its tables.
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL`
   */
  fill(step: ExecuteRequest, words: Int32Array): FilledStep {
    const { writer, returned } = this;
    this.promptRows = [];
    this.masked = [];
    this.counts.fill(0);
    returned.begin();
    writer.begin(words);
    this.change(step);
    this.slots.states.beginStep();
    const seen = new Set<number>();
    for (const slice of step.slices) {
      if (seen.has(slice.slot)) throw protocolError(`two slices of slot ${slice.slot}`);
      seen.add(slice.slot);
      this.addSlice(slice, words);
    }
    for (const { row, target, top } of this.promptRows) writer.promptRow(row, target, top);
    const rows = returned.end(this.counts, writer.nextRow, words);
    const used = writer.end(this.counts, this.splits ?? NO_SPLITS);
    const { promptRows, masked } = this;
    return { words: used, promptRows, returned: rows, masked };
  }

  /** Closes, opens and extends slots; a block that leaves one slot's table may be another's at once. */
  private change({ closes, slices, opens, appends }: ExecuteRequest): void {
    const { write } = this.writer;
    for (const slot of closes) this.slots.close(slot);
    for (const slice of slices) this.slots.advance(slice, write);
    for (const open of opens) {
      this.slots.open(open, write);
      this.returned.open(open.slot);
    }
    for (const append of appends) this.slots.append(append, write);
  }

  /** Adds the rows of a slice, what they return and what is sampled of them. */
  private addSlice(slice: Slice, words: Int32Array): void {
    const { writer, slots } = this;
    const { isEncoder, isRecurrent } = this.forward.limits;
    const { slot, count } = slice;
    writer.checkRows(count);
    const first = writer.nextRow;
    if (slice.promptLogprobs) {
      slots.promptRows(slice, (index, target, top) => {
        this.promptRows.push({ slot, row: first + index, target, top });
      });
    }
    const isVoid = slots.isVoid(slice);
    if (isRecurrent) this.addStates(slice, isVoid);
    else if (slice.fromSnapshot !== undefined || slice.toSnapshot !== undefined)
      throw protocolError(`a snapshot of slot ${slot}, which has no states`);
    if (isEncoder) this.checkWhole(slice);
    if (isEncoder) writer.encoderRows(count);
    slots.rows(slice, (tokenId, position) => writer.row(tokenId, position, slot));
    // A row with draft tokens is as one of another sequence: the same graphs hold it.
    writer.addTiles(first, slice.tokenIds === undefined ? this.tileRows : 1);
    this.returned.add(slice, first, slots.isConstrained(slot), words);
    if (slice.sample) this.addSamples(slice, isVoid);
    else if (slice.mask !== undefined || slice.draftTokenMasks !== undefined)
      throw protocolError(`a mask of slot ${slot}, which samples nothing`);
  }

  /** Adds the states that a slice continues from and leaves behind. */
  private addStates(slice: Slice, isVoid: boolean): void {
    const { writer } = this;
    const { states } = this.slots;
    const { count } = slice;
    const row = writer.nextRow;
    writer.slice(sliceWords(row, count, states.of(slice, isVoid)), SLICE_WORDS, count);
    if (isDrafted(slice)) writer.keptRows(states.keptRows(slice, row));
  }

  /** Adds the rows of a slice, its last ones, of which a token is sampled. */
  private addSamples(slice: Slice, isVoid: boolean): void {
    const { writer, slots } = this;
    const { slot, position, count } = slice;
    const outputs = outputsOf(slice);
    if (!isVoid) slots.beforeSample(slot, position + count - outputs + 1, writer.write);
    needs(this.counts, slots.needsOf(slot));
    if (outputs > 1) slots.drafted(slot);
    this.mask(slice, writer.nextSample, isVoid);
    const end = writer.nextRow;
    for (let row = end - outputs; row < end; row++) writer.sample(row);
  }

  /** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless an encoder's slice is its whole sequence */
  private checkWhole(slice: Slice): void {
    const { slot, position, count, sample, pooling = Pooling.UNSPECIFIED } = slice;
    const isWhole = position === 0 && this.slots.following(slice).tokens.at(-1) === undefined;
    if (!isWhole)
      throw protocolError(`positions ${position} to ${position + count} of slot ${slot}, whose rows see all`);
    if (sample || pooling === Pooling.UNSPECIFIED)
      throw protocolError(`a token of slot ${slot}, of a model without logits`);
  }

  /** Notes how a slice's rows are masked, for when they are sampled. */
  private mask(slice: Slice, sample: number, isVoid: boolean): void {
    const { slot, position, count, mask } = slice;
    const draftTokenMasks = words(slice.draftTokenMasks ?? NO_BYTES);
    const isConstrained = this.slots.isConstrained(slot);
    if (isConstrained !== (mask !== undefined || slice.draftTokenMasks !== undefined))
      throw protocolError(`slot ${slot} is ${isConstrained ? '' : 'not '}constrained`);
    const outputs = outputsOf(slice);
    if (draftTokenMasks.length !== (isConstrained && outputs > 1 ? outputs : 0))
      throw protocolError(`${draftTokenMasks.length} masks for ${outputs} outputs of slot ${slot}`);
    for (const [i, id] of draftTokenMasks.entries()) {
      this.masks.get(id);
      this.masked.push({ slot, position: position + 1 + i, sample: sample + i, mask: id });
    }
    if (mask === undefined) return;
    if (draftTokenMasks.length > 0) throw protocolError(`two kinds of masks of slot ${slot}`);
    if (mask.id !== 0) this.masks.get(mask.id);
    this.masked.push({ slot, position: position + count, sample, mask: isVoid ? undefined : mask.id || PENDING });
  }
}
