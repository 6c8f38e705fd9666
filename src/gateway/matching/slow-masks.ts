/** When masks are slow. */
export const SLOW_MASKS = {
  /** Milliseconds of a mask, beyond which it is slow. */
  ms: 5,
  /** Milliseconds for which all answers of its form count as slow then: equal texts share masks, so that most of them take no time. */
  rememberedMs: 1000,
} as const;

/** Forms that are remembered. */
const MOST_REMEMBERED = 4096;

/** Forms of answers whose masks were slow a short time ago. */
export class SlowMasks {
  /** By form, until when; the one that was slow last at the end. */
  private readonly until = new Map<string, number>();

  /** @param nowMs of a clock that never goes back */
  constructor(private readonly nowMs: () => number) {}

  /** A mask of an answer took `ms`. */
  record(form: string, ms: number): void {
    if (ms <= SLOW_MASKS.ms) return;
    this.until.delete(form);
    this.until.set(form, this.nowMs() + SLOW_MASKS.rememberedMs);
    const [oldest] = this.until.keys();
    if (this.until.size > MOST_REMEMBERED && oldest !== undefined) this.until.delete(oldest);
  }

  isSlow(form: string): boolean {
    return this.nowMs() < (this.until.get(form) ?? 0);
  }
}
