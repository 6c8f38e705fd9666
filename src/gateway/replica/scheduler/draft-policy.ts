import { MOST_DRAFT_TOKENS } from '../../../shared/step-limits.js';
import { Acceptance } from '../../request/draft-length.js';
import type { DraftMethod } from '../../request/sequence.js';
import { type BlockTimes, PredictionCost } from './prediction-cost.js';
import { StepCost } from './step-cost.js';
import { StepDurations } from './step-durations.js';

/** One of so many new sequences tries predictions while they do not pay. */
const TRIED_ONE_OF = 32;
/** Weight of earlier draft tokens of all sequences, with each try; and draft tokens of them that a new sequence begins with. */
const DECAY = 0.99;
const SHARED_TRIED: Readonly<Record<DraftMethod, number>> = {
  lookup: 3,
  // A sequence that ends its predictions does so for good: bad luck is not to end them.
  mtp: 8,
};

/** Numbers of sequences, and rows of logits. */
export interface DraftLoad {
  /** Running ones, each of which has a row in a step. */
  readonly running: number;
  /** Those of them that the prediction block computes, too. */
  readonly predicting: number;
  /** Rows of logits beside one for each. */
  readonly spareLogits: number;
}

/** Microseconds of a step; 0: not known. */
export interface StepTimes {
  /** From the result before it to its own, or on the device if that is longer. */
  readonly stepUs: number;
  /** On the device, without the prediction block. */
  readonly rowsUs: number;
  /** Present for a step with predictions. */
  readonly block?: BlockTimes | undefined;
}

/** Draft tokens that pay: by what steps cost, and how many were right, of a sequence and of all. */
export class DraftPolicy {
  private readonly cost = new StepCost();
  private readonly durations = new StepDurations();
  private readonly prediction = new PredictionCost(this.durations);
  /** Two of three are assumed before the first. */
  private readonly shared: Readonly<Record<DraftMethod, Acceptance>> = {
    lookup: new Acceptance(DECAY, 2, 3),
    mtp: new Acceptance(DECAY, 2, 3),
  };

  private untried = 0;

  constructor(private readonly load: () => DraftLoad) {}

  /**
   * A step without prompts has run.
   *
   * @param passes of the prediction block, each of which makes a draft token of some sequences
   */
  observe(rows: number, passes: number, { stepUs, rowsUs, block }: StepTimes): void {
    if (rowsUs <= 0) return;
    this.cost.observe(rows, stepUs);
    this.durations.add(rows, rowsUs);
    if (block !== undefined && passes > 0) this.prediction.observe(passes, block);
  }

  /** So many of a slice's draft tokens of a method were right. */
  learn(method: DraftMethod | undefined, right: number, of: number): void {
    if (method !== undefined && of > 0) this.shared[method].add(right, of);
  }

  /** True if the next new sequence is to take draft tokens of the prediction block. */
  get predictsNext(): boolean {
    return this.untried >= TRIED_ONE_OF - 1 || this.worth('mtp', { right: 0, tried: 0 }) >= 1;
  }

  /** A new sequence begins. @returns true if it takes draft tokens of the prediction block */
  beginPrediction(): boolean {
    const predicts = this.predictsNext;
    this.untried = predicts ? 0 : this.untried + 1;
    return predicts;
  }

  /** Number of draft tokens of a method that pay for a sequence with such an acceptance. */
  readonly worth = (method: DraftMethod, { right, tried }: Pick<Acceptance, 'right' | 'tried'>): number => {
    const shared = this.shared[method].right / this.shared[method].tried;
    const prior = SHARED_TRIED[method];
    const own = (right + prior * shared) / (tried + prior);
    const { running, predicting, spareLogits } = this.load();
    if (method === 'lookup') return this.cost.draftTokensThatPay(Math.max(1, running), own, MOST_DRAFT_TOKENS);
    const load = { running: Math.max(1, running), predicting: Math.max(1, predicting), shared, own };
    // Each has as many, at least where some have one.
    const share = Math.ceil(Math.max(0, spareLogits) / load.predicting);
    return this.prediction.tokensThatPay(load, Math.min(MOST_DRAFT_TOKENS, share));
  };
}
