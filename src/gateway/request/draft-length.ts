import { MOST_DRAFT_TOKENS } from '../../shared/step-limits.js';

/** After this many tries in a row of which no draft token was right, none is made for a while, twice as long each time. */
const MISSES = 3;
const FIRST_REST = 16;
const MOST_REST = 1024;
/** Weight of earlier draft tokens in the measured acceptance, with each try; and what is assumed before the first. */
const DECAY = 0.9;
const FIRST_ACCEPTANCE = { right: 2, tried: 3 };

/**
 * Number of draft tokens of a method that are worth a step's rows, by how many were right and what a row costs. Where none pays, it
 * rests, and tries a single one after that.
 */
export class DraftLength {
  private misses = 0;
  private rest = FIRST_REST;
  private restsUntil = 0;
  private isTrying = false;
  private readonly measured = { ...FIRST_ACCEPTANCE };

  /**
   * @param most draft tokens at first
   * @param worth number of draft tokens that pay at such an acceptance, from 0 to 1
   */
  constructor(
    private most: number,
    private readonly worth: (acceptance: number) => number = () => Number.POSITIVE_INFINITY,
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

  /** Probability that a draft token is right if those before it are. */
  get acceptance(): number {
    return this.measured.right / this.measured.tried;
  }

  /** Number of the last draft tokens that were accepted. @param known tokens, from which on it may rest */
  learn(right: number, of: number, known: number): void {
    const { measured } = this;
    measured.right = DECAY * measured.right + right;
    // Draft tokens behind a wrong one say nothing.
    measured.tried = DECAY * measured.tried + Math.min(of, right + 1);
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
