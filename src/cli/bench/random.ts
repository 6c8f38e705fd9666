/** Repeatable numbers (mulberry32). */
export class SeededRandom {
  constructor(private state: number) {}

  /** In [0, 1). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }

  /** A whole number from `least` to `most`, both included. */
  integer([least, most]: readonly [least: number, most: number]): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** The time to the next event of a Poisson process, in the unit of 1 / rate. */
  exponential(rate: number): number {
    return -Math.log(1 - this.next()) / rate;
  }
}
