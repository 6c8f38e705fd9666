import { type MergeTable, NO_MERGE } from './merge-table.js';

/** Up to this many symbols a plain scan for the best pair is faster than a heap. */
const SCAN_LIMIT = 24;

/** Heap keys hold rank and position in one double: 2^21 ranks and 2^31 positions fit in its 53 bits. */
const POSITION_RANGE = 2 ** 31;

/**
 * Applies merges to `symbols[0, length)` in place, lowest rank first and leftmost among equals, until none applies.
 * O(n log n) in the number of symbols.
 *
 * @returns how many symbols are left, at the front of the array
 */
export function mergeSymbols(symbols: Int32Array, length: number, table: MergeTable): number {
  return length <= SCAN_LIMIT ? mergeByScan(symbols, length, table) : mergeByHeap(symbols, length, table);
}

/** The plain twin: looks at every pair before each merge. O(n²), and the fastest way for the words of a language. */
export function mergeByScan(symbols: Int32Array, length: number, table: MergeTable): number {
  let left = length;
  while (left > 1) {
    let best = -1;
    let bestMerge = NO_MERGE;
    for (let i = 0; i + 1 < left; i++) {
      const merge = table.find(symbols[i]!, symbols[i + 1]!);
      if (merge !== NO_MERGE && (bestMerge === NO_MERGE || table.rank(merge) < table.rank(bestMerge))) {
        best = i;
        bestMerge = merge;
      }
    }
    if (best < 0) break;
    symbols[best] = table.result(bestMerge);
    symbols.copyWithin(best + 1, best + 2, left);
    left--;
  }
  return left;
}

/**
 * The fast twin for long words: a linked list of symbols and a heap of pairs. A pair in the heap may have changed since
 * it was put there; it counts only if the pair that now begins at its position still has its rank.
 */
export function mergeByHeap(symbols: Int32Array, length: number, table: MergeTable): number {
  const next = new Int32Array(length);
  const previous = new Int32Array(length);
  /** The merge of the pair that begins at a position. */
  const merges = new Int32Array(length).fill(NO_MERGE);
  const heap = new PairHeap(length);
  const keyAt = (at: number) => table.rank(merges[at]!) * POSITION_RANGE + at;
  for (let i = 0; i < length; i++) {
    next[i] = i + 1 < length ? i + 1 : -1;
    previous[i] = i - 1;
    if (i + 1 < length) merges[i] = table.find(symbols[i]!, symbols[i + 1]!);
    if (merges[i] !== NO_MERGE) heap.append(keyAt(i));
  }
  heap.order();

  while (heap.size > 0) {
    const key = heap.pop();
    const at = key % POSITION_RANGE;
    if (merges[at] === NO_MERGE || keyAt(at) !== key) continue;

    const right = next[at]!;
    const after = next[right]!;
    const before = previous[at]!;
    symbols[at] = table.result(merges[at]!);
    merges[right] = NO_MERGE;
    next[at] = after;
    merges[at] = after < 0 ? NO_MERGE : table.find(symbols[at]!, symbols[after]!);
    if (after >= 0) previous[after] = at;
    if (merges[at] !== NO_MERGE) heap.push(keyAt(at));
    if (before < 0) continue;
    merges[before] = table.find(symbols[before]!, symbols[at]!);
    if (merges[before] !== NO_MERGE) heap.push(keyAt(before));
  }

  let count = 0;
  for (let i = 0; i >= 0 && i < length; i = next[i]!) symbols[count++] = symbols[i]!;
  return count;
}

/** A min-heap of doubles with four children a node: half the depth of a binary one, and siblings share a cache line. */
class PairHeap {
  size = 0;
  private keys: Float64Array;

  constructor(capacity: number) {
    this.keys = new Float64Array(capacity + 2);
  }

  /** Adds without keeping the order; {@link order} must follow before the first {@link pop}. */
  append(key: number): void {
    this.keys[this.size++] = key;
  }

  /** Floyd's bottom-up construction, O(n). */
  order(): void {
    for (let i = (this.size - 2) >> 2; i >= 0; i--) this.sink(i);
  }

  push(key: number): void {
    if (this.size === this.keys.length) {
      const larger = new Float64Array(this.size * 2);
      larger.set(this.keys);
      this.keys = larger;
    }
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 2;
      if (this.keys[parent]! <= key) break;
      this.keys[at] = this.keys[parent]!;
      at = parent;
    }
    this.keys[at] = key;
  }

  pop(): number {
    const top = this.keys[0]!;
    this.size--;
    if (this.size > 0) {
      this.keys[0] = this.keys[this.size]!;
      this.sink(0);
    }
    return top;
  }

  private sink(from: number): void {
    const { keys, size } = this;
    const key = keys[from]!;
    let at = from;
    for (;;) {
      const first = at * 4 + 1;
      if (first >= size) break;
      let child = first;
      for (let rival = first + 1; rival < Math.min(first + 4, size); rival++) {
        if (keys[rival]! < keys[child]!) child = rival;
      }
      if (keys[child]! >= key) break;
      keys[at] = keys[child]!;
      at = child;
    }
    keys[at] = key;
  }
}
