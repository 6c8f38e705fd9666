import { Pooling, type Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { POOL_FIRST, POOL_LAST, POOL_MEAN, POOL_MEAN_SO_FAR, POOL_WORDS } from '../kernels/index.js';
import type { ForwardPass } from '../layers/forward-pass.js';
import { COUNT_HIDDEN, COUNT_POOLED, COUNT_SCORED, COUNT_STATES } from '../model/step-counts.js';
import { protocolError } from './protocol-error.js';

/** Rows that a slice returns: of those in {@link StepTables} of that name, so many from `first` on. */
export interface ReturnedRows {
  readonly of: 'hidden' | 'pooled' | 'scores';
  readonly first: number;
  readonly count: number;
}

/** Hidden states that the slices of a step return, checked and written to its tables. */
export class ReturnedSlices {
  /** Position at which the sums of each slot's mean end. */
  private readonly summed: Int32Array;
  private returned: ReturnedRows[] = [];
  private hidden = 0;
  private pooled = 0;
  private isScored = false;

  constructor(private readonly forward: ForwardPass) {
    this.summed = new Int32Array(forward.limits.maxSequences);
  }

  /** A step begins. */
  begin(): void {
    this.returned = [];
    [this.hidden, this.pooled, this.isScored] = [0, 0, false];
  }

  /** A slot begins a sequence. */
  open(slot: number): void {
    this.summed[slot] = 0;
  }

  /**
   * Notes what a slice returns. @param first its first row
   *
   * @throws RocmForgeError `EXECUTOR_PROTOCOL`
   */
  add(slice: Slice, first: number, isConstrained: boolean, words: Int32Array): void {
    const { slot, count, pooling = Pooling.UNSPECIFIED, score = false } = slice;
    if (pooling === Pooling.UNSPECIFIED) {
      if (score) throw protocolError(`scores of slot ${slot}, whose states are not pooled`);
      return;
    }
    const { returnedHiddenSize, labels, limits } = this.forward;
    if (slice.tokenIds !== undefined || isConstrained || returnedHiddenSize === 0)
      throw protocolError(`a hidden state of slot ${slot}, which has none`);
    if (score && (pooling === Pooling.NONE || labels === 0))
      throw protocolError(`scores of slot ${slot}, which has none`);
    if (pooling === Pooling.NONE) {
      this.addRows(first, count, words);
      return;
    }
    const ends = slice.sample || limits.isEncoder === true;
    const kind = this.kindOf(slice, ends);
    const { pools } = this.forward.tables.offsets;
    words.set([slot, first, count, slice.position, kind], pools + POOL_WORDS * this.pooled);
    if (ends) this.returned.push({ of: score ? 'scores' : 'pooled', first: this.pooled, count: 1 });
    this.pooled += 1;
    this.isScored ||= score;
  }

  /** Sets the counts, for a step of so many rows. @returns what each slice returns, of those that return anything, in order */
  end(counts: Int32Array, rows: number, words: Int32Array): readonly ReturnedRows[] {
    counts[COUNT_HIDDEN] = this.hidden;
    counts[COUNT_POOLED] = words[this.forward.tables.offsets.pooled] = this.pooled;
    counts[COUNT_SCORED] = this.isScored ? this.pooled : 0;
    counts[COUNT_STATES] = this.hidden + this.pooled > 0 ? rows : 0;
    return this.returned;
  }

  private addRows(first: number, count: number, words: Int32Array): void {
    const { maxHidden, offsets } = this.forward.tables;
    if (this.hidden + count > maxHidden) throw protocolError(`more than ${maxHidden} hidden states`);
    for (let i = 0; i < count; i++) words[offsets.hiddenRow + this.hidden + i] = first + i;
    this.returned.push({ of: 'hidden', first: this.hidden, count });
    this.hidden += count;
  }

  /** @param ends true of the last slice of its sequence */
  private kindOf({ slot, position, count, pooling }: Slice, ends: boolean): number {
    const { isEncoder = false } = this.forward.limits;
    if (pooling === Pooling.FIRST && isEncoder) return POOL_FIRST;
    if (pooling === Pooling.LAST && ends) return POOL_LAST;
    if (pooling !== Pooling.MEAN) throw protocolError(`pooling ${pooling} of slot ${slot}`);
    const summed = this.summed[slot] as number;
    if (position !== 0 && position !== summed)
      throw protocolError(`a mean of slot ${slot} from position ${position}, whose sums end at ${summed}`);
    this.summed[slot] = position + count;
    return ends ? POOL_MEAN : POOL_MEAN_SO_FAR;
  }
}
