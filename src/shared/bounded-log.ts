import { TokenBucket } from './token-bucket.js';

/** Lines at once, and a second: what a client causes without end must not fill the log. */
const LINES = { burst: 20, perSecond: 1 };

/** Writes lines that clients cause, at a bounded rate; a line counts those suppressed before it. */
export class BoundedLog {
  private readonly lines: TokenBucket;
  private suppressed = 0;

  constructor(
    private readonly write: (fields: object, message: string) => void,
    private readonly nowMs: () => number = () => performance.now(),
  ) {
    this.lines = new TokenBucket(LINES.burst, nowMs());
  }

  /** @param fields of the line, which are made only if it is written */
  note(fields: () => Readonly<Record<string, unknown>>, message: string): void {
    if (this.lines.level(LINES.burst, LINES.perSecond, this.nowMs()) < 1) {
      this.suppressed += 1;
      return;
    }
    this.lines.take(1);
    const { suppressed } = this;
    this.suppressed = 0;
    this.write({ ...fields(), ...(suppressed > 0 && { suppressed }) }, message);
  }
}
