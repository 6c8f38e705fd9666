/**
 * Which answers a thread's heap has grown for. The heap is known as a whole only, so its growth is attributed to the answers that
 * the thread worked for since it last grew, by the time this took: both grow with the number of ways in which a grammar derives a text.
 */
export class HeapShares<Answer> {
  /** Bytes by which the heap has grown for answers, those that have left included. */
  bytes = 0;
  private readonly bytesOf = new Map<Answer, number>();
  private readonly msOf = new Map<Answer, number>();
  /** Milliseconds since the last growth for answers that have left. */
  private leftMs = 0;

  /** Counts time that the thread worked for an answer; undefined: for one that has left. */
  spend(answer: Answer | undefined, ms: number): void {
    if (answer === undefined) this.leftMs += ms;
    else this.msOf.set(answer, (this.msOf.get(answer) ?? 0) + ms);
  }

  /** The heap has grown. */
  grow(bytes: number): void {
    if (bytes <= 0) return;
    this.bytes += bytes;
    const all = [...this.msOf.values()].reduce((sum, ms) => sum + ms, this.leftMs);
    if (all > 0) {
      for (const [answer, ms] of this.msOf) {
        this.bytesOf.set(answer, (this.bytesOf.get(answer) ?? 0) + (bytes * ms) / all);
      }
    }
    this.msOf.clear();
    this.leftMs = 0;
  }

  /** An answer has ended, or has moved to another thread. */
  leave(answer: Answer): void {
    this.leftMs += this.msOf.get(answer) ?? 0;
    this.msOf.delete(answer);
    this.bytesOf.delete(answer);
  }

  /** The answer with the most bytes; undefined where the heap has grown mostly for answers that have left. */
  get largest(): Answer | undefined {
    const byBytes = [...this.bytesOf].sort(([, a], [, b]) => b - a);
    const held = byBytes.reduce((sum, [, bytes]) => sum + bytes, 0);
    return held > this.bytes / 2 ? byBytes[0]?.[0] : undefined;
  }
}
