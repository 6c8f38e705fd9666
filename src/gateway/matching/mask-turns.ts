/**
 * Budget that waits, of several clients. The turn goes to the client whose work has taken the least time; of each client, what came
 * first is first. A client that comes, or comes back, starts level with the one that is served: time in which it asked for nothing
 * gives it no credit (start-time fair queueing: Goyal, Vin and Cheng, 1996).
 */
export class MaskTurns<Entry> {
  private readonly waiting = new Map<string, Entry[]>();
  /** Milliseconds by client, for those who have used more than {@link level}. */
  private readonly usedMs = new Map<string, number>();
  /** Milliseconds of the client that was served last. */
  private level = 0;

  add(client: string, entry: Entry): void {
    const own = this.waiting.get(client);
    if (own === undefined) this.waiting.set(client, [entry]);
    else own.push(entry);
  }

  /** Takes what is next; undefined where nothing waits. */
  take(): { readonly client: string; readonly entry: Entry } | undefined {
    let next: string | undefined;
    for (const client of this.waiting.keys()) {
      if (next === undefined || this.usedBy(client) < this.usedBy(next)) next = client;
    }
    const own = next === undefined ? undefined : this.waiting.get(next);
    const entry = own?.shift();
    if (next === undefined || own === undefined || entry === undefined) return undefined;
    if (own.length === 0) this.waiting.delete(next);
    this.level = this.usedBy(next);
    for (const [client, ms] of this.usedMs) if (ms <= this.level) this.usedMs.delete(client);
    return { client: next, entry };
  }

  /** Counts what a client's work took. */
  charge(client: string, ms: number): void {
    this.usedMs.set(client, this.usedBy(client) + ms);
  }

  /** Removes what a client waits for no more. */
  remove(client: string, isGone: (entry: Entry) => boolean): void {
    const kept = (this.waiting.get(client) ?? []).filter((entry) => !isGone(entry));
    if (kept.length > 0) this.waiting.set(client, kept);
    else this.waiting.delete(client);
  }

  private usedBy(client: string): number {
    return Math.max(this.level, this.usedMs.get(client) ?? 0);
  }
}
