/** No such merge. */
export const NO_MERGE = -1;

/**
 * Which two neighbouring symbols may become one, how early (a lower rank first) and what they become.
 *
 * An open-addressing hash table over pairs of symbol ids in one flat array, so that a look-up is one cache miss: a `Map`
 * of 280,000 string keys takes four times the memory and is read five times slower. Ids and ranks are below 2^31.
 */
export class MergeTable {
  /** Per slot `left, right, rank, result`; a `left` of -1 marks a free slot. */
  private readonly entries: Int32Array;
  private readonly mask: number;
  private count = 0;

  /** @param capacity the most pairs that will be added */
  constructor(private readonly capacity: number) {
    let slots = 16;
    while (slots < capacity * 2) slots *= 2;
    this.mask = slots - 1;
    this.entries = new Int32Array(slots * 4).fill(-1);
  }

  /** Adds a merge; the first one of a pair stays. */
  add(left: number, right: number, rank: number, result: number): void {
    const at = this.locate(left, right);
    if (this.entries[at] !== -1) return;
    if (this.count === this.capacity) throw new Error(`merge table is full at ${this.capacity} pairs`);
    this.count++;
    this.entries[at] = left;
    this.entries[at + 1] = right;
    this.entries[at + 2] = rank;
    this.entries[at + 3] = result;
  }

  /** A handle on the merge of a pair for {@link rank} and {@link result}, or {@link NO_MERGE}. */
  find(left: number, right: number): number {
    const at = this.locate(left, right);
    return this.entries[at] === -1 ? NO_MERGE : at;
  }

  /** When the merge applies: lower first. */
  rank(merge: number): number {
    return this.entries[merge + 2]!;
  }

  /** The symbol that the pair becomes. */
  result(merge: number): number {
    return this.entries[merge + 3]!;
  }

  private locate(left: number, right: number): number {
    let slot = hash(left, right) & this.mask;
    for (;;) {
      const found = this.entries[slot * 4]!;
      if (found === -1 || (found === left && this.entries[slot * 4 + 1] === right)) return slot * 4;
      slot = (slot + 1) & this.mask;
    }
  }
}

/** Mixes both ids into all 32 bits, so that neighbouring ids do not end in neighbouring slots. */
function hash(left: number, right: number): number {
  let mixed = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  return (mixed ^ (mixed >>> 13)) >>> 0;
}
