/** The most that one tick may advance the clock, in intervals: what is beyond was nobody's to see. */
const MOST_INTERVALS = 2;

/**
 * Milliseconds during which this process attended to what it watches. The clock stands still while the event loop does
 * not turn: stopped by a signal, by a suspended machine, or by work of its own. What is waited for may have come long ago
 * and lie unread, so that time must be held against nobody.
 *
 * Its owner ticks it from a timer of `intervalMs`.
 */
export class StallTolerantClock {
  private attended = 0;
  private seen: number;

  /** @param now milliseconds of a clock that never goes back */
  constructor(
    private readonly intervalMs: number,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.seen = now();
  }

  /** Milliseconds attended since the clock was made. */
  get nowMs(): number {
    return this.attended + Math.min(this.now() - this.seen, MOST_INTERVALS * this.intervalMs);
  }

  tick(): void {
    this.attended = this.nowMs;
    this.seen = this.now();
  }
}
