/** The executor's slots: which are free, and which it is to close with the next step. */
export class Slots {
  private free: number[] = [];
  private closes: number[] = [];

  constructor(private readonly count: number) {
    this.reset();
  }

  get freeCount(): number {
    return this.free.length;
  }

  /** One must be free. */
  take(): number {
    return this.free.pop() as number;
  }

  giveBack(slot: number): void {
    this.closes.push(slot);
    this.free.push(slot);
  }

  /** Those given back since the last step. */
  takeCloses(): readonly number[] {
    return this.closes.splice(0);
  }

  /** All are free and closed: the executor is another one. */
  reset(): void {
    this.closes = [];
    this.free = Array.from({ length: this.count }, (_, i) => this.count - 1 - i);
  }

  /** Throws unless each slot is either free or held, once. */
  check(held: readonly (number | undefined)[]): void {
    const slots = [...this.free, ...held];
    if (new Set(slots).size !== this.count || slots.length !== this.count) {
      throw new Error(`slots ${slots.join(', ')} are not 0 to ${this.count - 1}, each once`);
    }
  }
}
