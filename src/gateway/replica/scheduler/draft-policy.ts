import { MOST_DRAFT_TOKENS } from '../../../shared/step-limits.js';
import { Acceptance } from '../../request/draft-length.js';
import type { DraftMethod } from '../../request/sequence.js';
import { StepCost } from './step-cost.js';

/** Where predictions do not pay, one of so many new sequences tries them all the same. */
const TRIED_ONE_OF = 32;
/** Weight of earlier draft tokens of all sequences, with each try; and draft tokens of them that a new sequence begins with. */
const DECAY = 0.99;
const SHARED_TRIED = 3;

/** Draft tokens that pay: by what a row costs, and how many were right, of a sequence and of all. */
export class DraftPolicy {
  readonly cost = new StepCost();
  /** Two of three are assumed before the first. */
  private readonly shared: Readonly<Record<DraftMethod, Acceptance>> = {
    lookup: new Acceptance(DECAY, 2, 3),
    mtp: new Acceptance(DECAY, 2, 3),
  };

  private untried = 0;

  /**
   * @param running number of sequences, each of which has a row in a step
   * @param predicting those of them that the prediction block computes, too
   */
  constructor(
    private readonly running: () => number,
    private readonly predicting: () => number = () => 1,
  ) {}

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
    const shared = this.shared[method];
    const acceptance = (right + (SHARED_TRIED * shared.right) / shared.tried) / (tried + SHARED_TRIED);
    const running = Math.max(1, this.running());
    if (method === 'lookup') return this.cost.draftTokensThatPay(running, acceptance, MOST_DRAFT_TOKENS);
    return this.cost.predictedTokensThatPay(running, Math.max(1, this.predicting()), acceptance, MOST_DRAFT_TOKENS);
  };
}
