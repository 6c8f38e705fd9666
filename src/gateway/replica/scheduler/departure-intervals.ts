/** Weight of the newest interval in the mean. */
const NEWEST = 1 / 8;

/** Intervals at which sequences leave a queue for slots, while others wait behind them. Times are milliseconds of one clock. Pure. */
export class DepartureIntervals {
  /** Undefined: none has left, or nothing has waited behind the last one. */
  private leftAt: number | undefined;
  private meanMs: number | undefined;

  /** A sequence was given a slot. @param waiting sequences that wait behind it */
  left(waiting: number, now: number): void {
    const interval = this.leftAt === undefined ? undefined : now - this.leftAt;
    if (interval !== undefined)
      this.meanMs = (this.meanMs ?? interval) + NEWEST * (interval - (this.meanMs ?? interval));
    this.leftAt = waiting > 0 ? now : undefined;
  }

  /** Time from one place in a full queue to the next: the mean, or that since the last one if it is longer; undefined while it is not known. */
  intervalMs(now: number): number | undefined {
    if (this.meanMs === undefined) return undefined;
    return Math.max(this.meanMs, this.leftAt === undefined ? 0 : now - this.leftAt);
  }
}
