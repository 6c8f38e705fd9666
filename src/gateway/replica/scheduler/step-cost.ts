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
  private predictions = 0;
  private predictedUs = 0;

  /** A step has taken so many microseconds on the device. */
  observe(rows: number, us: number): void {
    if (us <= 0) return;
    this.steps = DECAY * this.steps + 1;
    this.rows = DECAY * this.rows + rows;
    this.us = DECAY * this.us + us;
    this.rowsSquared = DECAY * this.rowsSquared + rows * rows;
    this.rowsUs = DECAY * this.rowsUs + rows * us;
  }

  /**
   * A step whose prediction block made up to `most` draft tokens a sequence has taken so many microseconds more than its rows: on the
   * device, and because none was sent ahead.
   */
  observePrediction(most: number, us: number): void {
    this.predictions = DECAY * this.predictions + most;
    this.predictedUs = DECAY * this.predictedUs + us;
  }

  /** Microseconds of a step of no row, and of each row; undefined: not measured yet. */
  get line(): Line | undefined {
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
    return line === undefined ? most : bestCount(line, sequences, acceptance, most, 0);
  }

  /**
   * The same of draft tokens that the prediction block makes, which takes time itself.
   *
   * @param predicting sequences of the step that share this time
   */
  predictedTokensThatPay(sequences: number, predicting: number, acceptance: number, most: number): number {
    if (this.steps === 0 || this.predictions === 0) return most;
    // Rows that were always as many say nothing of their cost: on a GPU it is small beside the block's.
    const line = this.line ?? { base: this.us / this.steps, perRow: 0 };
    return bestCount(line, sequences, acceptance, most, this.predictedUs / this.predictions / predicting);
  }
}

interface Line {
  readonly base: number;
  readonly perRow: number;
}

/** @param perToken microseconds that each draft token takes beside its row */
function bestCount(line: Line, sequences: number, acceptance: number, most: number, perToken: number): number {
  const timeOf = (count: number): number => line.base + line.perRow * (sequences + count) + perToken * count;
  let [best, bestRate] = [0, sequences / timeOf(0)];
  let [expected, isRight] = [sequences, 1];
  for (let count = 1; count <= most; count++) {
    isRight *= acceptance;
    expected += isRight;
    const rate = expected / timeOf(count);
    if (rate > bestRate) [best, bestRate] = [count, rate];
  }
  return best;
}
