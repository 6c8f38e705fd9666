/** A bucket that fills evenly up to its capacity. Its rate may be another at each use. */
export class TokenBucket {
  private held: number;
  private at: number;

  /** @param nowMs of a clock that never goes back */
  constructor(capacity: number, nowMs: number) {
    this.held = capacity;
    this.at = nowMs;
  }

  /** Its level now; below 0 if more was taken than it had. */
  level(capacity: number, perSecond: number, nowMs: number): number {
    this.held = Math.min(capacity, this.held + ((nowMs - this.at) / 1000) * perSecond);
    this.at = nowMs;
    return this.held;
  }

  /** Takes some, whether it has them or not. Below 0 gives some back. */
  take(count: number): void {
    this.held -= count;
  }
}
