/**
 * Time for which the event loop may work at once, before it looks at its sockets again. A hundred requests that
 * arrive together may each be cheap; what comes when the budget is spent is done elsewhere.
 */
export class EventLoopBudget {
  private spentMs = 0;
  private isCounting = false;

  /** @param ms of work in one turn of the loop */
  constructor(private readonly ms: number) {}

  get isSpent(): boolean {
    return this.spentMs >= this.ms;
  }

  /** Does it now, and counts how long it took. */
  spend<T>(work: () => T): T {
    const began = performance.now();
    try {
      return work();
    } finally {
      this.spentMs += performance.now() - began;
      if (!this.isCounting) {
        this.isCounting = true;
        setImmediate(() => {
          this.isCounting = false;
          this.spentMs = 0;
        });
      }
    }
  }
}
