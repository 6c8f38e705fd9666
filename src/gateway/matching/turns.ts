/** Waiting jobs of several clients. The turn goes round among them; each client's are served in order. */
export class Turns<Entry> {
  /** By client, the next one's first. */
  private readonly waiting = new Map<string, Entry[]>();
  private count = 0;

  get size(): number {
    return this.count;
  }

  add(client: string, entry: Entry): void {
    this.count += 1;
    const own = this.waiting.get(client);
    if (own === undefined) this.waiting.set(client, [entry]);
    else own.push(entry);
  }

  /** Takes the first that may go, whose client then comes last. */
  take(mayGo: (entry: Entry, client: string) => boolean): Entry | undefined {
    for (const [client, own] of this.waiting) {
      const entry = own.find((each) => mayGo(each, client));
      if (entry === undefined) continue;
      this.remove(client, entry);
      const rest = this.waiting.get(client);
      if (rest !== undefined && this.waiting.delete(client)) this.waiting.set(client, rest);
      return entry;
    }
    return undefined;
  }

  /** The newest of the client with the most, if it has more than this one would have with one more. */
  crowding(client: string): Entry | undefined {
    const most = [...this.waiting.values()].reduce<Entry[]>((a, b) => (b.length > a.length ? b : a), []);
    return most.length > (this.waiting.get(client)?.length ?? 0) + 1 ? most.at(-1) : undefined;
  }

  /** @returns whether it was there */
  remove(client: string, entry: Entry): boolean {
    const own = this.waiting.get(client);
    const at = own?.indexOf(entry) ?? -1;
    if (own === undefined || at < 0) return false;
    own.splice(at, 1);
    this.count -= 1;
    if (own.length === 0) this.waiting.delete(client);
    return true;
  }
}
