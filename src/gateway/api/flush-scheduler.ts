/** The part of the event loop's time that writing tokens may take: what comes meanwhile is joined, and costs no write. */
const SHARE = 0.25;
/** Waits are neither shorter than what a round of few streams needs, nor longer than what a reader sees. */
const LEAST_WAIT_MS = 4;
const MOST_WAIT_MS = 20;

/** Target that has something to write. */
export interface FlushTarget {
  /** Writes what is held. */
  flush(): void;
  /** Is told what `flush` threw. */
  abandon(error: unknown): void;
}

/**
 * When streams are written: all that have something in one round, as soon as the event loop has handled what arrived.
 * Rounds that took long, the system calls that follow them included, put the next one off in proportion: so a gateway with
 * little to do joins nothing, and one with much to do joins as many tokens as leave it time. It is the shortest of the last
 * three that counts: in a single one the process may have stood still, or taken connections by the hundred, which is no
 * writing and not shortened by less of it. Nobody's first token waits, and nobody's last.
 */
export class FlushScheduler {
  private readonly urgent = new Set<FlushTarget>();
  private readonly others = new Set<FlushTarget>();
  private next: NodeJS.Immediate | undefined;
  private waiting: NodeJS.Timeout | undefined;
  private notBefore = 0;
  /** Duration of the last rounds. ms */
  private readonly lastTook = [0, 0, 0];

  /** @param now milliseconds of a clock that never goes back */
  constructor(private readonly now: () => number = () => performance.now()) {}

  add(writer: FlushTarget, isUrgent: boolean): void {
    (isUrgent ? this.urgent : this.others).add(writer);
    if (this.next !== undefined || (this.waiting !== undefined && !isUrgent)) return;
    const waitMs = isUrgent ? 0 : this.waitMs;
    if (waitMs === 0) this.next = setImmediate(() => this.run());
    else this.waiting = setTimeout(() => this.run(), waitMs);
  }

  /** Flushes one writer out of turn. */
  flush(writer: FlushTarget): void {
    try {
      writer.flush();
    } catch (error) {
      // A failing write affects one stream alone.
      writer.abandon(error);
    }
  }

  /** 0: the next round may begin. */
  private get waitMs(): number {
    const left = this.notBefore - this.now();
    return left < LEAST_WAIT_MS / 2 ? 0 : left;
  }

  private run(): void {
    this.next = undefined;
    const isRound = this.waitMs === 0;
    const writers = [...this.urgent, ...(isRound ? this.others : [])];
    this.urgent.clear();
    if (isRound) {
      this.others.clear();
      clearTimeout(this.waiting);
      this.waiting = undefined;
    } else if (this.others.size > 0) {
      this.waiting ??= setTimeout(() => this.run(), this.waitMs);
    }
    const began = this.now();
    for (const writer of writers) this.flush(writer);
    // HTTP/2 hands what was written to the system before the loop comes here again.
    if (isRound) setImmediate(() => this.backOff(began));
  }

  private backOff(began: number): void {
    const now = this.now();
    this.lastTook.shift();
    this.lastTook.push(now - began);
    const waitMs = Math.min(...this.lastTook) * (1 / SHARE - 1);
    if (waitMs >= LEAST_WAIT_MS) this.notBefore = now + Math.min(waitMs, MOST_WAIT_MS);
  }
}
