import { MOST_DRAFT_TOKENS } from '../../shared/step-limits.js';

/** After this many tries in a row of which no draft token was right, none is made for a while, twice as long each time. */
const MISSES = 3;
const FIRST_REST = 16;
const MOST_REST = 1024;
/** Weight of earlier draft tokens in the measured acceptance, with each try. */
const DECAY = 0.9;

/** Draft tokens that were right, and that could have been: those up to the first wrong one. Earlier ones weigh less. */
export class Acceptance {
  constructor(
    private readonly decay: number,
    public right = 0,
    public tried = 0,
  ) {}

  /** So many of a slice's draft tokens were right. */
  add(right: number, of: number): void {
    this.right = this.decay * this.right + right;
    // Draft tokens behind a wrong one say nothing.
    this.tried = this.decay * this.tried + Math.min(of, right + 1);
  }
}

/** The most draft tokens of the prediction block while little is known of how many are right. */
const FIRST_PREDICTED = 3;
/** Slices with its draft tokens before they are judged. */
const JUDGED_FROM = 4;

/** Number of draft tokens that pay, by how many of a sequence were right. */
export type DraftWorth = (acceptance: Pick<Acceptance, 'right' | 'tried'>) => number;

/**
 * Number of draft tokens of a method that are worth a step's rows, by how many were right and what a row costs. Where none pays, it
 * rests, and tries a single one after that.
 */
export class DraftLength {
  private misses = 0;
  private rest = FIRST_REST;
  private restsUntil = 0;
  private isTrying = false;
  private readonly acceptance = new Acceptance(DECAY);

  /**
   * @param most draft tokens at first
   * @param worth default: any number pays
   */
  constructor(
    private most: number,
    private readonly worth: DraftWorth = () => Number.POSITIVE_INFINITY,
  ) {}

  /** Draft tokens after the first `known` tokens. */
  at(known: number): number {
    if (known < this.restsUntil) return 0;
    const worth = this.worth(this.acceptance);
    if (worth >= 1) return Math.min(this.most, worth);
    if (this.isTrying) return 1;
    this.isTrying = true;
    this.pause(known);
    return 0;
  }

  /** Number of the last draft tokens that were accepted. @param known tokens, from which on it may rest */
  learn(right: number, of: number, known: number): void {
    this.acceptance.add(right, of);
    this.isTrying = false;
    if (right > 0) {
      this.misses = 0;
      this.rest = FIRST_REST;
    } else {
      this.misses += 1;
    }
    this.most = right === of ? Math.min(2 * this.most, MOST_DRAFT_TOKENS) : Math.max(1, right + 1);
    if (this.misses < MISSES) return;
    this.misses = 0;
    this.pause(known);
  }

  private pause(known: number): void {
    this.restsUntil = known + this.rest;
    this.rest = Math.min(2 * this.rest, MOST_REST);
  }
}

/**
 * Number of draft tokens of the model's prediction block for a sequence. Where none pays any more it ends for good: the block skips
 * the sequence's further tokens, so that it costs nothing, and would not know them if it began again.
 */
export class PredictionLength {
  private slices = 0;
  private hasEnded = false;
  private readonly acceptance = new Acceptance(DECAY);

  constructor(private readonly worth: DraftWorth) {}

  /** True once none pays. */
  get isOver(): boolean {
    return this.hasEnded;
  }

  /** It makes no draft tokens from here on. */
  end(): void {
    this.hasEnded = true;
  }

  /** Draft tokens that pay now; 0: it is over. */
  next(): number {
    if (this.hasEnded) return 0;
    const worth = this.worth(this.acceptance);
    if (this.slices < JUDGED_FROM) return Math.max(1, Math.min(FIRST_PREDICTED, worth));
    this.hasEnded = worth < 1;
    return Math.min(MOST_DRAFT_TOKENS, worth);
  }

  /** Number of the last draft tokens that were accepted. */
  learn(right: number, of: number): void {
    this.slices += 1;
    this.acceptance.add(right, of);
  }
}
