import { ATTENTION_SPLIT, type SplitRows, splitsContexts } from '../kernels/index.js';
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
  settle,
} from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';
import { protocolError } from './protocol-error.js';

/** Limits of a step's tables. */
export interface StepRoom {
  /** Rows. */
  readonly maxStepTokens: number;
  /** Rows of logits. */
  readonly maxSequences: number;
}

/** Writes the tables of one step at a time, entry by entry, and counts the entries. */
export class StepWriter {
  private words: Int32Array = new Int32Array(0);
  private rows = 0;
  private samples = 0;
  private draws = 0;
  private tiles = 0;
  private slices = 0;
  private kept = 0;
  private writes = 0;
  /** End of the longest context. */
  private furthest = 0;

  /** @param writeAhead has the device make these writes before the step: its table of them is full */
  constructor(
    private readonly tables: StepTables,
    private readonly room: StepRoom,
    private readonly writeAhead: (input: Int32Array, writes: number) => void,
  ) {}

  /** The row that comes next. */
  get nextRow(): number {
    return this.rows;
  }

  /** The sampled row that comes next. */
  get nextSample(): number {
    return this.samples;
  }

  /** Begins a step. @param words its tables */
  begin(words: Int32Array): void {
    this.words = words;
    this.rows = this.samples = this.draws = this.tiles = this.slices = this.kept = 0;
    this.writes = this.furthest = 0;
  }

  /** Adds a write of a word to the slots' memory. */
  readonly write = (index: number, value: number): void => {
    const { tables, words } = this;
    const { writePairs } = tables.offsets;
    if (this.writes === tables.maxWrites) {
      this.writeAhead(words.slice(0, writePairs + 2 * this.writes), this.writes);
      this.writes = 0;
    }
    words[writePairs + 2 * this.writes] = index;
    words[writePairs + 2 * this.writes + 1] = value;
    this.writes += 1;
  };

  /** @throws RocmForgeError `EXECUTOR_PROTOCOL` unless so many rows more fit */
  checkRows(count: number): void {
    const { maxStepTokens } = this.room;
    if (this.rows + count > maxStepTokens) throw protocolError(`more than ${maxStepTokens} rows`);
  }

  row(tokenId: number, position: number, slot: number): void {
    const { words } = this;
    const { rowToken, rowPosition, rowSlot } = this.tables.offsets;
    words[rowToken + this.rows] = tokenId;
    words[rowPosition + this.rows] = position;
    words[rowSlot + this.rows] = slot;
    this.rows += 1;
    this.furthest = Math.max(this.furthest, position + 1);
  }

  /** Tiles of at most `tileRows` of the rows from `first` on. */
  addTiles(first: number, tileRows: number): void {
    const { words } = this;
    const { tiles } = this.tables.offsets;
    for (let row = first; row < this.rows; row += tileRows) {
      words[tiles + 2 * this.tiles] = row;
      words[tiles + 2 * this.tiles + 1] = Math.min(tileRows, this.rows - row);
      this.tiles += 1;
    }
  }

  /** The rows of an encoder's slice, which all see up to its end. */
  encoderRows(count: number): void {
    const from = this.tables.offsets.rowEnd + this.rows;
    this.words.fill(this.rows + count, from, from + count);
  }

  /** A slice of a model whose layers have states. @param slice as `sliceWords` gives it */
  slice(slice: readonly number[], width: number, count: number): void {
    const { words } = this;
    const { slices, rowSlice } = this.tables.offsets;
    words.set(slice, slices + width * this.slices);
    words.fill(this.slices, rowSlice + this.rows, rowSlice + this.rows + count);
    this.slices += 1;
  }

  /** Rows whose inputs are kept, two words each. @throws RocmForgeError `EXECUTOR_PROTOCOL` */
  keptRows(rows: readonly number[]): void {
    const count = rows.length / 2;
    this.checkSamples(this.kept + count);
    this.words.set(rows, this.tables.offsets.keptRows + 2 * this.kept);
    this.kept += count;
  }

  /** A row of which a token is sampled. @throws RocmForgeError `EXECUTOR_PROTOCOL` */
  sample(row: number): void {
    this.checkSamples(this.samples + 1);
    this.words[this.tables.offsets.sampleRow + this.samples] = row;
    this.samples += 1;
    this.draws = this.samples;
  }

  /** A row of a prompt, of which log probabilities are wanted; behind all that are sampled. */
  promptRow(row: number, target: number, top: number): void {
    this.checkSamples(this.samples + 1);
    const { sampleRow, promptTarget } = this.tables.offsets;
    this.words[promptTarget + 2 * this.samples] = target;
    this.words[promptTarget + 2 * this.samples + 1] = top;
    this.words[sampleRow + this.samples] = row;
    this.samples += 1;
  }

  /**
   * Ends the step, and counts it.
   *
   * @param splitRows rows of a step up to which attention splits contexts
   * @returns used entries of the tables
   */
  end(counts: Int32Array, splitRows: SplitRows): number {
    const { words, rows, tiles, samples, draws, writes } = this;
    const { offsets } = this.tables;
    const isSplit = splitsContexts(rows, tiles, splitRows);
    if (!isSplit && tiles < rows) {
      longestFirst(words.subarray(offsets.tiles, offsets.tiles + 2 * tiles), words, offsets.rowPosition);
    }
    words[offsets.tokens] = rows;
    words[offsets.samples] = samples;
    words[offsets.draws] = draws;
    words[offsets.writes] = writes;
    counts[COUNT_TOKENS] = rows;
    counts[COUNT_SAMPLES] = samples;
    counts[COUNT_DRAWS] = draws;
    counts[COUNT_PROMPT_ROWS] = samples - draws;
    counts[COUNT_WRITES] = writes;
    counts[COUNT_SLICES] = this.slices;
    counts[COUNT_KEPT] = this.kept;
    counts[COUNT_SPLITS] = Math.ceil(this.furthest / ATTENTION_SPLIT);
    counts[COUNT_SPLIT_ROWS] = isSplit ? rows : 0;
    counts[COUNT_TILES] = isSplit ? 0 : tiles;
    settle(counts);
    return offsets.writePairs + 2 * writes;
  }

  private checkSamples(count: number): void {
    const { maxSequences } = this.room;
    if (count > maxSequences) throw protocolError(`more than ${maxSequences} rows of logits`);
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
