import type { StallTolerantClock } from './stall-tolerant-clock.js';
import type { StepDeadline } from './step-deadline.js';

/** Knows since when the oldest step under way has been running, and when that is too long. */
export class StepWatch {
  /** Rows of each step under way, oldest first. */
  private readonly rowsInFlight: number[] = [];
  /** When the oldest step under way could begin: it was sent, and the one before it had come back. */
  private oldestSince = 0;

  /**
   * @param pace how long steps took so far
   * @param clock of the process that watches
   */
  constructor(
    private readonly deadline: StepDeadline,
    private readonly clock: StallTolerantClock,
  ) {}

  /** A step of this many rows is sent. */
  begin(rows: number): void {
    if (this.rowsInFlight.length === 0) this.oldestSince = this.clock.nowMs;
    this.rowsInFlight.push(rows);
  }

  /** The oldest step came back. */
  end(): void {
    const now = this.clock.nowMs;
    this.deadline.observe(this.rowsInFlight.shift() ?? 1, now - this.oldestSince);
    this.oldestSince = now;
  }

  /** Milliseconds since the oldest step under way could begin; 0 when there is none. */
  get ageMs(): number {
    return this.rowsInFlight.length === 0 ? 0 : this.clock.nowMs - this.oldestSince;
  }

  /** Milliseconds that the oldest step under way may take; undefined when there is none. */
  deadlineMs(floorMs: number): number | undefined {
    const [rows] = this.rowsInFlight;
    return rows === undefined ? undefined : Math.max(floorMs, this.deadline.deadlineMs(rows));
  }

  /**
   * Time for which the oldest step has been under way, if that is too long for its size and what steps took before.
   *
   * @param floorMs the least time a step gets
   */
  overdueMs(floorMs: number): number | undefined {
    const deadline = this.deadlineMs(floorMs);
    const { ageMs } = this;
    return deadline !== undefined && ageMs > deadline ? ageMs : undefined;
  }
}
