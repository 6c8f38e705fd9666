/** A small generator with a fixed sequence for each seed (mulberry32). */
export class Random {
  constructor(private state: number) {}

  /** A generator that continues as this one does. */
  copy(): Random {
    return new Random(this.state);
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number in 0 .. n - 1. */
  below(n: number): number {
    return Math.floor(this.next() * n);
  }

  /** The numbers 0 .. n - 1 in random order. */
  permutation(n: number): number[] {
    const order = Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j]!, order[i]!];
    }
    return order;
  }
}
