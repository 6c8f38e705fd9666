import { MOST_DRAFT_TOKENS } from '../../../shared/step-limits.js';
import { Acceptance } from '../../request/draft-length.js';
import type { DraftMethod } from '../../request/sequence.js';
import { type BlockTimes, PredictionCost } from './prediction-cost.js';
import { StepCost } from './step-cost.js';
import { StepDurations } from './step-durations.js';

/** One of so many new sequences tries predictions while they do not pay. */
const TRIED_ONE_OF = 16;
/** Weight of earlier draft tokens of all sequences, with each try; and draft tokens of them that a new sequence begins with. */
const DECAY = 0.99;
const SHARED_TRIED: Readonly<Record<DraftMethod, number>> = {
  lookup: 3,
  // A sequence that ends its predictions does so for good: bad luck is not to end them.
  mtp: 8,
};

const NOTHING = { right: 0, tried: 0 };

/** Numbers of sequences, and rows of logits. */
export interface DraftLoad {
  /** Running ones, each of which has a row in a step. */
  readonly running: number;
  /** Those of them that the prediction block computes, too. */
  readonly predicting: number;
  /** Rows of logits beside one for each. */
  readonly spareLogits: number;
  /** Sequences that wait and find slots. */
  readonly coming: number;
}

/** Microseconds of a step; 0: not known. */
export interface StepTimes {
  /** Since the result before it or, if it was alone, since it was sent; default {@link stepUs}. */
  readonly elapsedUs?: number;
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
  /** Two of three are assumed before the first; of predictions for longer, as a few wrong ones would keep all sequences from trying them. */
  private readonly shared: Readonly<Record<DraftMethod, Acceptance>> = {
    lookup: new Acceptance(DECAY, 2, 3),
    mtp: new Acceptance(DECAY, 8, 12),
  };

  private untried = 0;

  constructor(private readonly load: () => DraftLoad) {}

  /**
   * A step without prompts has run.
   *
   * @param predicted draft tokens that the prediction block was to make for each of some sequences
   */
  observe(rows: number, predicted: readonly number[], { stepUs, rowsUs, block }: StepTimes): void {
    if (rowsUs <= 0) return;
    this.cost.observe(rows, stepUs);
    this.durations.add(rows, rowsUs);
    const passes = Math.max(0, ...predicted);
    if (block === undefined || passes === 0) return;
    this.prediction.observe({ rows, predicting: predicted.length, passes, ...block });
  }

  /** So many of a slice's draft tokens of a method were right. */
  learn(method: DraftMethod | undefined, right: number, of: number): void {
    if (method !== undefined && of > 0) this.shared[method].add(right, of);
  }

  /** True if the next new sequence is to take draft tokens of the prediction block. */
  get predictsNext(): boolean {
    if (this.untried >= TRIED_ONE_OF - 1) return true;
    const { running, predicting, spareLogits, coming } = this.load();
    // As many as there will be with the others that wait.
    const load = { running: running + coming, predicting: predicting + coming, spareLogits: spareLogits - coming };
    return this.predictedTokens(load, this.acceptanceOf('mtp').shared) >= 1;
  }

  /** A new sequence begins. @returns true if it takes draft tokens of the prediction block */
  beginPrediction(): boolean {
    const predicts = this.predictsNext;
    this.untried = predicts ? 0 : this.untried + 1;
    return predicts;
  }

  /** Number of draft tokens of a method that pay for a sequence with such an acceptance. */
  readonly worth = (method: DraftMethod, accepted: Pick<Acceptance, 'right' | 'tried'>): number => {
    const { own } = this.acceptanceOf(method, accepted);
    const load = this.load();
    if (method === 'mtp') return this.predictedTokens(load, own);
    return this.cost.draftTokensThatPay(Math.max(1, load.running), own, MOST_DRAFT_TOKENS);
  };

  /** Probability that a draft token is right behind right ones, of all sequences and of one. */
  private acceptanceOf(method: DraftMethod, { right, tried }: Pick<Acceptance, 'right' | 'tried'> = NOTHING) {
    const shared = this.shared[method].right / this.shared[method].tried;
    const prior = SHARED_TRIED[method];
    return { shared, own: (right + prior * shared) / (tried + prior) };
  }

  private predictedTokens(load: Omit<DraftLoad, 'coming'>, own: number): number {
    const [running, predicting] = [Math.max(1, load.running), Math.max(1, load.predicting)];
    const { shared } = this.acceptanceOf('mtp');
    // Each has as many, at least where some have one.
    const share = Math.ceil(Math.max(0, load.spareLogits) / predicting);
    return this.prediction.tokensThatPay({ running, predicting, shared, own }, Math.min(MOST_DRAFT_TOKENS, share));
  }
}
