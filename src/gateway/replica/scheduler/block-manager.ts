import { NO_PREFIX } from '../../request/prefix.js';

/** Tokens a KV block holds. */
export const BLOCK_TOKENS = 16;

/** Blocks that hold `tokens` tokens. */
export function blocksFor(tokens: number): number {
  return Math.ceil(tokens / BLOCK_TOKENS);
}

/** A full block whose content is known, findable by the prefix before it and its tokens. */
interface CachedBlock {
  readonly hash: number;
  readonly parent: number;
  readonly ids: Uint32Array;
  readonly prefix: number;
}

/** A block that was found, and the number of the prefix up to and including it. */
export interface FoundBlock {
  readonly block: number;
  readonly prefix: number;
}

/**
 * Which KV blocks are whose, and which content can be found again.
 *
 * A block is free or counted by the sequences that hold it. A free block keeps its content until it is taken for
 * something else, oldest first, so the free list is the prefix cache's LRU. Block 0 is the null block: nobody's.
 *
 * A block continues a prefix, and each content that becomes findable gives the prefix up to it a number that is never used
 * again. Hashes only say where to look: two prompts share a block if they are equal token for token, whatever collides.
 */
export class BlockManager {
  private readonly references: Int32Array;
  private readonly cached: (CachedBlock | undefined)[];
  private readonly byHash = new Map<number, number>();
  private prefixes = NO_PREFIX;
  // The free blocks as a doubly linked ring through entry 0: taken at the head, given back at the tail.
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  private free = 0;

  /** @param count blocks of the executor, the null block included */
  constructor(readonly count: number) {
    this.references = new Int32Array(count);
    this.cached = new Array<CachedBlock | undefined>(count).fill(undefined);
    this.next = new Int32Array(count);
    this.previous = new Int32Array(count);
    this.reset();
  }

  /** Free blocks, those with findable content included. */
  get freeCount(): number {
    return this.free;
  }

  /** Blocks that sequences may hold at all. */
  get capacity(): number {
    return this.count - 1;
  }

  /** Blocks with findable content. */
  get cachedCount(): number {
    return this.byHash.size;
  }

  /** Empties everything: the blocks belong to a new generation, whose contents are unknown. */
  reset(): void {
    this.references.fill(0);
    this.cached.fill(undefined);
    this.byHash.clear();
    for (let block = 0; block < this.count; block++) {
      this.next[block] = (block + 1) % this.count;
      this.previous[block] = (block + this.count - 1) % this.count;
    }
    this.free = this.count - 1;
  }

  canAllocate(blocks: number): boolean {
    return blocks <= this.free;
  }

  /** Takes free blocks, forgetting what they held. The caller has asked {@link canAllocate}. */
  allocate(blocks: number): number[] {
    if (!this.canAllocate(blocks)) throw new RangeError(`${blocks} blocks asked for, ${this.free} free`);
    const taken: number[] = [];
    for (let i = 0; i < blocks; i++) {
      const block = this.next[0] as number;
      this.unlink(block);
      this.forget(block);
      this.references[block] = 1;
      taken.push(block);
    }
    return taken;
  }

  /** Counts one holder more of a block that {@link find} gave. */
  share(block: number): void {
    if (this.references[block] === 0) this.unlink(block);
    this.references[block] = (this.references[block] as number) + 1;
  }

  /** Counts one holder less; without holders the block is free, its content still findable. */
  release(block: number): void {
    const left = (this.references[block] as number) - 1;
    if (left < 0) throw new RangeError(`block ${block} is released more often than it was taken`);
    this.references[block] = left;
    if (left === 0) this.link(block);
  }

  /** Whether a block is free now: taking it costs one of {@link freeCount}. */
  isFree(block: number): boolean {
    return this.references[block] === 0;
  }

  /** The block that holds exactly these tokens after a prefix, by the number that {@link register} gave it. */
  find(parent: number, ids: Uint32Array): FoundBlock | undefined {
    const block = this.byHash.get(hashOf(parent, ids));
    if (block === undefined) return undefined;
    const entry = this.cached[block] as CachedBlock;
    return entry.parent === parent && sameIds(entry.ids, ids) ? { block, prefix: entry.prefix } : undefined;
  }

  /**
   * Makes a full block findable. Where another block with this content is findable already, that one stays.
   *
   * @returns the number of the prefix up to and including this block
   */
  register(block: number, parent: number, ids: Uint32Array): number {
    const known = this.find(parent, ids);
    if (known !== undefined) return known.prefix;
    const prefix = ++this.prefixes;
    const hash = hashOf(parent, ids);
    if (!this.byHash.has(hash) && this.cached[block] === undefined) {
      this.byHash.set(hash, block);
      this.cached[block] = { hash, parent, ids, prefix };
    }
    return prefix;
  }

  /**
   * Holds the books against what sequences say they hold; throws when a block has not exactly one fate.
   *
   * @param held the block tables of all sequences
   */
  check(held: Iterable<readonly number[]>): void {
    const expected = new Int32Array(this.count);
    for (const blocks of held) for (const block of blocks) expected[block] = (expected[block] as number) + 1;
    let free = 0;
    for (let block = this.next[0] as number; block !== 0; block = this.next[block] as number) {
      if (expected[block] !== 0) throw new Error(`block ${block} is free and held`);
      if (++free > this.free) throw new Error('the free list is longer than its count');
    }
    if (free !== this.free) throw new Error(`${free} blocks in the free list, ${this.free} counted`);
    for (let block = 1; block < this.count; block++) {
      if (expected[block] !== this.references[block]) {
        throw new Error(`block ${block} is held ${expected[block]} times, counted ${this.references[block]}`);
      }
      if (expected[block] !== 0) free += 1;
    }
    if (free !== this.capacity) throw new Error(`${this.capacity - free} blocks are lost`);
    for (const [hash, block] of this.byHash) {
      if (this.cached[block]?.hash !== hash) throw new Error(`block ${block} is findable by a hash it does not have`);
    }
  }

  private forget(block: number): void {
    const entry = this.cached[block];
    if (entry === undefined) return;
    this.byHash.delete(entry.hash);
    this.cached[block] = undefined;
  }

  private unlink(block: number): void {
    const before = this.previous[block] as number;
    const after = this.next[block] as number;
    this.next[before] = after;
    this.previous[after] = before;
    this.free -= 1;
  }

  private link(block: number): void {
    const tail = this.previous[0] as number;
    this.next[tail] = block;
    this.previous[block] = tail;
    this.next[block] = 0;
    this.previous[0] = block;
    this.free += 1;
  }
}

/** A 52-bit hash of a block's tokens and a number for what came before. Collisions are easily made: it proves nothing. */
export function hashOf(before: number, ids: Uint32Array): number {
  let high = (before / 0x4000000) ^ 0x9e3779b9;
  let low = before ^ 0x85ebca6b;
  for (const id of ids) {
    high = Math.imul(high ^ id, 0x01000193);
    low = Math.imul(low ^ (id + 0x7f4a7c15), 0xcc9e2d51);
    low ^= low >>> 15;
    high ^= high >>> 13;
  }
  return (high >>> 6) * 0x4000000 + (low >>> 6) || 1;
}

function sameIds(a: Uint32Array, b: Uint32Array): boolean {
  return a.length === b.length && a.every((id, i) => id === b[i]);
}
