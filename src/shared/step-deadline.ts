/** Steps that are looked back on. */
const WINDOW = 32;
/** Factor by which a step may take longer than the slowest comparable step before it. */
const SLACK = 20;
/** While there is no history: the first steps of a process touch memory for the first time. */
const WARM_UP_STEPS = 4;
const WARM_UP_DEADLINE_MS = 60_000;

/** Deadline of a step, from the steps before it. Pure except for the durations it receives. */
export class StepDeadline {
  private readonly window: { readonly rows: number; readonly ms: number }[] = [];
  private seen = 0;

  /** A step of this many rows took this long. One without rows has other work, which says nothing about a row's. */
  observe(rows: number, ms: number): void {
    if (rows === 0) return;
    this.seen += 1;
    this.window.push({ rows, ms });
    if (this.window.length > WINDOW) this.window.shift();
  }

  /** Milliseconds after which a step of this many rows has certainly failed; the caller adds a floor. */
  deadlineMs(rows: number): number {
    if (this.seen < WARM_UP_STEPS) return WARM_UP_DEADLINE_MS;
    // A step costs something by itself and something a row; a larger one than any before gets the time in proportion.
    const slowest = this.window.reduce((most, step) => Math.max(most, step.ms * Math.max(1, rows / step.rows)), 0);
    return SLACK * slowest;
  }
}
