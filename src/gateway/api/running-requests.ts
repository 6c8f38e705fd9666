/** Requests under way that their senders can end by id, for protocols that have a call for it. */
export class RunningRequests {
  private readonly aborts = new Map<string, Set<() => void>>();

  /**
   * Notes a request. Several may have one id: no protocol here says that an id is refused while it is in use.
   *
   * @param principal whose it is: nobody else ends it
   * @param id as its sender chose it; empty: nobody can name it
   * @param abort ends it
   * @returns forgets it
   */
  add(principal: string, id: string, abort: () => void): () => void {
    if (id === '') return () => undefined;
    const key = keyOf(principal, id);
    const ofKey = this.aborts.get(key) ?? new Set();
    this.aborts.set(key, ofKey.add(abort));
    return () => {
      ofKey.delete(abort);
      if (ofKey.size === 0 && this.aborts.get(key) === ofKey) this.aborts.delete(key);
    };
  }

  /** Ends all requests of a principal that have one of these ids; others' are as if they were not there. */
  abort(principal: string, ids: readonly string[]): void {
    for (const id of ids) for (const abort of [...(this.aborts.get(keyOf(principal, id)) ?? [])]) abort();
  }

  /** Ids that can be named. */
  get size(): number {
    return this.aborts.size;
  }
}

/** Both are anything that a client says: the length keeps them apart. */
const keyOf = (principal: string, id: string): string => `${principal.length}:${principal}${id}`;
