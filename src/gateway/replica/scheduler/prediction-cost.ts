import { StepDurations } from './step-durations.js';

/** Microseconds that a step with predictions takes beside its rows: of the block, and until its result came, as none was sent ahead. */
export interface BlockTimes {
  readonly blockUs: number;
  readonly waitUs: number;
}

/** Sequences that share the steps. */
export interface PredictingLoad {
  readonly running: number;
  /** Those of them that the prediction block computes. */
  readonly predicting: number;
  /** Probability that a draft token is right behind right ones, of all sequences and of the one in question: from 0 to 1. */
  readonly shared: number;
  readonly own: number;
}

/** A step with predictions. */
export interface PredictedStep extends BlockTimes {
  readonly rows: number;
  /** Sequences with predictions, and passes over the block: the most draft tokens of one of them. */
  readonly predicting: number;
  readonly passes: number;
}

/**
 * Measured cost of draft tokens that the prediction block makes: one pass over it for each of a sequence, all sequences together. A pass
 * takes longer with more sequences, and so does the gateway between two steps.
 */
export class PredictionCost {
  private readonly passes = new StepDurations();
  private readonly waits = new StepDurations();

  constructor(private readonly durations: StepDurations) {}

  observe({ rows, predicting, passes, blockUs, waitUs }: PredictedStep): void {
    this.passes.add(predicting, blockUs / passes);
    this.waits.add(rows, waitUs);
  }

  /**
   * Number of draft tokens of a sequence, of at most `most`, with which steps are expected to give the most tokens in their time; 0:
   * none pays. The other predicting sequences have as many as pay for all together: if none do, nor does one for this sequence.
   */
  tokensThatPay({ running, predicting, shared, own }: PredictingLoad, most: number): number {
    const plainUs = this.durations.of(running);
    const passUs = this.passes.of(predicting);
    if (passUs === undefined || plainUs === undefined) return most;
    const usOf = (rows: number, passes: number): number => {
      const rowsUs = this.durations.of(rows) ?? plainUs;
      return passes === 0 ? rowsUs : rowsUs + passes * passUs + (this.waits.of(rows) ?? 0);
    };
    const others = predicting - 1;
    const together = best(most, others === 0 ? own : shared, (count, right) => {
      return (running + predicting * right) / usOf(running + predicting * count, count);
    });
    if (others === 0 || together.count === 0) return together.count;
    const rows = running + others * together.count;
    return best(most, own, (count, right) => {
      return (running + others * together.right + right) / usOf(rows + count, Math.max(together.count, count));
    }).count;
  }
}

/** The number of draft tokens with the highest rate, and how many of them are right on average. */
function best(
  most: number,
  acceptance: number,
  rateOf: (count: number, right: number) => number,
): { readonly count: number; readonly right: number } {
  let found = { count: 0, right: 0 };
  let [highest, right, isRight] = [rateOf(0, 0), 0, 1];
  for (let count = 1; count <= most; count++) {
    isRight *= acceptance;
    right += isRight;
    const rate = rateOf(count, right);
    if (rate > highest) [found, highest] = [{ count, right }, rate];
  }
  return found;
}
