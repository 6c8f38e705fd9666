import { type ExecuteRequest, Pooling, type Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { ATTENTION_SPLIT, ENCODER_TILE_ROWS, SLICE_WORDS, splitsContexts } from '../kernels/index.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import type { AttentionSplits } from '../layers/paged-attention.js';
import { sliceWords } from '../model/slot-layout.js';
import {
  COUNT_DRAWS,
  COUNT_KEPT,
  COUNT_PROMPT_ROWS,
  COUNT_SAMPLES,
  COUNT_SLICES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  COUNT_WRITES,
  needs,
  STEP_COUNTS,
  settle,
} from '../model/step-counts.js';
import type { MaskTable } from './mask-table.js';
import { protocolError } from './protocol-error.js';
import { type ReturnedRows, ReturnedSlices } from './returned-slices.js';
import { isDrafted } from './slot-states.js';
import { SlotTable } from './slots.js';
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
    private readonly writeAhead: (input: Int32Array, writes: number) => void,
    hasSnapshots: boolean,
  ) {
    const { limits, model } = forward;
    this.slots = new SlotTable(limits, model.vocabularySize, hasSnapshots);
    this.returned = new ReturnedSlices(forward);
    this.tileRows = limits.isEncoder ? ENCODER_TILE_ROWS : (splits?.tileRows ?? 1);
  }

  /**
   * Applies a step to the slots and writes its tables.
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL`
   */
  fill(step: ExecuteRequest, words: Int32Array): FilledStep {
    this.promptRows = [];
    this.returned.begin();
    this.masked = [];
    const { limits, tables } = this.forward;
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
    for (const open of step.opens) {
      this.slots.open(open, write);
      this.returned.open(open.slot);
    }
    for (const append of step.appends) this.slots.append(append, write);

    this.counts.fill(0);
    this.slots.states.beginStep();
    let row = 0;
    let samples = 0;
    let furthest = 0;
    let tiles = 0;
    let slices = 0;
    let kept = 0;
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
      const isVoid = this.slots.isVoid(slice);
      if (limits.isRecurrent) {
        const states = this.slots.states.of(slice, isVoid);
        words.set(sliceWords(row, slice.count, states), offsets.slices + SLICE_WORDS * slices);
        if (isDrafted(slice)) {
          if (kept + slice.count > limits.maxSequences)
            throw protocolError(`more than ${limits.maxSequences} rows of logits`);
          words.set(this.slots.states.keptRows(slice, row), offsets.keptRows + 2 * kept);
          kept += slice.count;
        }
        words.fill(slices, offsets.rowSlice + row, offsets.rowSlice + row + slice.count);
        slices += 1;
      } else if (slice.fromSnapshot !== undefined || slice.toSnapshot !== undefined) {
        throw protocolError(`a snapshot of slot ${slice.slot}, which has no states`);
      }
      if (limits.isEncoder) this.encoderRows(slice, row, words);
      this.slots.rows(slice, (tokenId, position) => {
        words[offsets.rowToken + row] = tokenId;
        words[offsets.rowPosition + row] = position;
        words[offsets.rowSlot + row] = slice.slot;
        row += 1;
      });
      furthest = Math.max(furthest, slice.position + slice.count);
      // A row with draft tokens is as one of another sequence: the same graphs hold it.
      const tileRows = slice.tokenIds === undefined ? this.tileRows : 1;
      for (let first = row - slice.count; first < row; first += tileRows) {
        words[offsets.tiles + 2 * tiles] = first;
        words[offsets.tiles + 2 * tiles + 1] = Math.min(tileRows, row - first);
        tiles += 1;
      }
      this.returned.add(slice, row - slice.count, this.slots.isConstrained(slice.slot), words);
      if (!slice.sample) {
        if (slice.mask !== undefined || slice.draftTokenMasks !== undefined)
          throw protocolError(`a mask of slot ${slice.slot}, which samples nothing`);
        continue;
      }
      const outputs = outputsOf(slice);
      if (!isVoid) this.slots.beforeSample(slice.slot, slice.position + slice.count - outputs + 1, write);
      needs(this.counts, this.slots.needsOf(slice.slot));
      if (outputs > 1) this.slots.drafted(slice.slot);
      this.mask(slice, samples, isVoid);
      for (let from = row - outputs; from < row; from++) {
        if (samples === limits.maxSequences) throw protocolError(`more than ${samples} rows of logits`);
        words[offsets.sampleRow + samples++] = from;
      }
    }
    const isSplit = splitsContexts(row, tiles, this.splits?.rows ?? 0);
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
    this.counts[COUNT_SLICES] = slices;
    this.counts[COUNT_KEPT] = kept;
    this.counts[COUNT_SPLITS] = Math.ceil(furthest / ATTENTION_SPLIT);
    this.counts[COUNT_SPLIT_ROWS] = isSplit ? row : 0;
    this.counts[COUNT_TILES] = isSplit ? 0 : tiles;
    const returned = this.returned.end(this.counts, row, words);
    settle(this.counts);
    const { promptRows, masked } = this;
    return { words: offsets.writePairs + 2 * writes, promptRows, returned, masked };
  }

  /** Notes where the rows of an encoder's slice end, which is its whole sequence. @param first its first row */
  private encoderRows(slice: Slice, first: number, words: Int32Array): void {
    const { slot, position, count, sample, pooling = Pooling.UNSPECIFIED } = slice;
    const isWhole = position === 0 && this.slots.following(slice).tokens.at(-1) === undefined;
    if (!isWhole)
      throw protocolError(`positions ${position} to ${position + count} of slot ${slot}, whose rows see all`);
    if (sample || pooling === Pooling.UNSPECIFIED)
      throw protocolError(`a token of slot ${slot}, of a model without logits`);
    const { rowEnd } = this.forward.tables.offsets;
    words.fill(first + count, rowEnd + first, rowEnd + first + count);
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
