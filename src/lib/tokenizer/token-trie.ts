/** Children of a node that are searched one after the other. */
const FEW_CHILDREN = 8;

/** A trie of tokens over UTF-16 units. Its nodes are in the order of their depth: the children of each are adjacent and sorted. */
export class TokenTrie {
  /** Child of node 0 by its unit; 0: none. */
  private readonly roots = new Int32Array(0x1_0000);
  /** Children of node n are from `firstChild[n]` to before `firstChild[n + 1]`. */
  private readonly firstChild: Int32Array;
  private readonly units: Uint16Array;
  /** Token that ends at a node; -1: none. */
  private readonly ids: Int32Array;

  /** @param entries texts, none of them empty, and their tokens; of equal texts the last counts */
  constructor(entries: ReadonlyMap<string, number>) {
    const texts = [...entries.keys()].sort();
    const count = nodeCount(texts);
    this.firstChild = new Int32Array(count + 1);
    this.units = new Uint16Array(count);
    this.ids = new Int32Array(count).fill(-1);
    // Texts below a node, and the length of what it stands for.
    const [from, to, depths] = [new Int32Array(count), new Int32Array(count), new Int32Array(count)];
    to[0] = texts.length;
    let next = 1;
    for (let node = 0; node < count; node++) {
      const depth = depths[node] as number;
      const end = to[node] as number;
      let at = from[node] as number;
      this.firstChild[node] = next;
      if (at < end && (texts[at] as string).length === depth)
        this.ids[node] = entries.get(texts[at++] as string) as number;
      while (at < end) {
        const unit = (texts[at] as string).charCodeAt(depth);
        this.units[next] = unit;
        if (node === 0) this.roots[unit] = next;
        depths[next] = depth + 1;
        from[next] = at;
        while (at < end && (texts[at] as string).charCodeAt(depth) === unit) at++;
        to[next++] = at;
      }
    }
    this.firstChild[count] = count;
  }

  /** Node 0 is the root. @returns the child of `node` for a unit; -1: none */
  child(node: number, unit: number): number {
    if (node === 0) return this.roots[unit] || -1;
    let low = this.firstChild[node] as number;
    let high = this.firstChild[node + 1] as number;
    while (high - low > FEW_CHILDREN) {
      const middle = (low + high) >>> 1;
      if ((this.units[middle] as number) <= unit) low = middle;
      else high = middle;
    }
    for (; low < high; low++) if (this.units[low] === unit) return low;
    return -1;
  }

  /** Token that ends at a node; -1: none. */
  idAt(node: number): number {
    return this.ids[node] as number;
  }
}

/** Nodes of a trie of sorted texts, with its root. */
function nodeCount(sorted: readonly string[]): number {
  let count = 1;
  let previous = '';
  for (const text of sorted) {
    let common = 0;
    while (common < previous.length && text.charCodeAt(common) === previous.charCodeAt(common)) common++;
    count += text.length - common;
    previous = text;
  }
  return count;
}
