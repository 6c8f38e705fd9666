import { MOST_DRAFT_TOKENS } from '../../../shared/step-limits.js';
import { Acceptance } from '../../request/draft-length.js';
import type { DraftMethod } from '../../request/sequence.js';
import { StepCost } from './step-cost.js';

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

  /** @param running number of sequences, each of which has a row in a step */
  constructor(private readonly running: () => number) {}

  /** So many of a slice's draft tokens of a method were right. */
  learn(method: DraftMethod | undefined, right: number, of: number): void {
    if (method !== undefined && of > 0) this.shared[method].add(right, of);
  }

  /** Number of draft tokens of a method that pay for a sequence with such an acceptance. */
  readonly worth = (method: DraftMethod, { right, tried }: Pick<Acceptance, 'right' | 'tried'>): number => {
    const shared = this.shared[method];
    const acceptance = (right + (SHARED_TRIED * shared.right) / shared.tried) / (tried + SHARED_TRIED);
    return this.cost.draftTokensThatPay(Math.max(1, this.running()), acceptance, MOST_DRAFT_TOKENS);
  };
}
