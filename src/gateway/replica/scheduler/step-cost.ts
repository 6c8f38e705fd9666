/** Weight of what was measured before, with each step. */
const DECAY = 0.98;
/** Steps, and variance of their rows, from which on a measured line means something. */
const LEAST_STEPS = 16;
const LEAST_VARIANCE = 0.25;

/**
 * Measured cost of a row: a line through durations of steps without prompts by their rows, of which the latest count most. On a GPU
 * a step of few rows reads the weights for nearly all of its time, so a row costs little; on a CPU it may cost half a step.
 */
export class StepCost {
  private steps = 0;
  private rows = 0;
  private us = 0;
  private rowsSquared = 0;
  private rowsUs = 0;

  /** A step has taken so many microseconds on the device. */
  observe(rows: number, us: number): void {
    if (us <= 0) return;
    this.steps = DECAY * this.steps + 1;
    this.rows = DECAY * this.rows + rows;
    this.us = DECAY * this.us + us;
    this.rowsSquared = DECAY * this.rowsSquared + rows * rows;
    this.rowsUs = DECAY * this.rowsUs + rows * us;
  }

  /** Microseconds of a step of no row, and of each row; undefined: not measured yet. */
  get line(): { readonly base: number; readonly perRow: number } | undefined {
    const [rows, us] = [this.rows / this.steps, this.us / this.steps];
    const variance = this.rowsSquared / this.steps - rows * rows;
    if (this.steps < LEAST_STEPS || variance < LEAST_VARIANCE) return undefined;
    const slope = Math.max(0, (this.rowsUs / this.steps - rows * us) / variance);
    // A step takes no less than its rows.
    const perRow = Math.min(slope, us / rows);
    return { base: us - perRow * rows, perRow };
  }

  /**
   * Number of draft tokens with which a step is expected to give the most tokens in its time; 0: none pays.
   *
   * @param sequences of the step, with a row each
   * @param acceptance probability that a draft token is right if those before it are, from 0 to 1
   * @param most draft tokens
   */
  draftTokensThatPay(sequences: number, acceptance: number, most: number): number {
    const { line } = this;
    if (line === undefined) return most;
    const timeOf = (rows: number): number => line.base + line.perRow * rows;
    let [best, bestRate] = [0, sequences / timeOf(sequences)];
    let [expected, isRight] = [sequences, 1];
    for (let count = 1; count <= most; count++) {
      isRight *= acceptance;
      expected += isRight;
      const rate = expected / timeOf(sequences + count);
      if (rate > bestRate) [best, bestRate] = [count, rate];
    }
    return best;
  }
}
