/** A block, and what its content is found by. */
export interface NotedBlock {
  readonly block: number;
  readonly key: number;
}

/**
 * Which KV blocks of one kind are whose, and which content can be found again, by a number.
 *
 * A block is free or counted by the sequences that hold it. A free block keeps its content until it is taken for
 * something else, oldest first, so the free list is the prefix cache's LRU. Block 0 is the null block: nobody's.
 */
export class BlockPool {
  private readonly references: Int32Array;
  /** By block, what its content is found by. */
  private readonly keys: (number | undefined)[];
  private readonly byKey = new Map<number, number>();
  /** By block, the checksum of its findable content, as far as an executor has computed it. */
  private readonly checksums: (bigint | undefined)[];
  /** Blocks of which the first rows alone are findable. */
  private readonly parts = new Set<number>();
  /** By block, what {@link restore} returned, if it has that content. */
  private readonly restored: (NotedBlock | undefined)[];
  /** Blocks whose content became findable, and whose checksum has not been requested. */
  private unsummed: number[] = [];
  // The free blocks as a doubly linked ring through entry 0: taken at the head, given back at the tail.
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  private free = 0;

  /** @param count blocks of the executor, the null block included */
  constructor(readonly count: number) {
    this.references = new Int32Array(count);
    this.keys = new Array<number | undefined>(count).fill(undefined);
    this.checksums = new Array<bigint | undefined>(count).fill(undefined);
    this.restored = new Array<NotedBlock | undefined>(count).fill(undefined);
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
    return this.byKey.size;
  }

  /** Empties everything: the blocks belong to a new generation, whose contents are unknown. */
  reset(): void {
    this.references.fill(0);
    this.keys.fill(undefined);
    this.checksums.fill(undefined);
    this.restored.fill(undefined);
    this.parts.clear();
    this.unsummed = [];
    this.byKey.clear();
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

  /** Counts one holder more of a block that was found. */
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

  /** As {@link release}, of a block that cannot be found: once free it is taken first. */
  discard(block: number): void {
    this.release(block);
    if (this.references[block] !== 0) return;
    this.unlink(block);
    this.link(block, this.next[0] as number);
  }

  /** True if a block is free now: taking it costs one of {@link freeCount}. */
  isFree(block: number): boolean {
    return this.references[block] === 0;
  }

  /** True if several sequences hold a block. */
  isShared(block: number): boolean {
    return (this.references[block] as number) > 1;
  }

  /** True if a block's content can be found. */
  isNoted(block: number): boolean {
    return this.keys[block] !== undefined;
  }

  /** True if a block still has the content that {@link restore} took in, and not other content since, under whatever number. */
  isRestored(restored: NotedBlock): boolean {
    return this.restored[restored.block] === restored;
  }

  /** The block whose content was noted under a number. */
  noted(key: number): number | undefined {
    return this.byKey.get(key);
  }

  /** Makes a block's content findable. @returns false where it is already, or another block's is under this number */
  note(block: number, key: number): boolean {
    if (this.byKey.has(key) || this.keys[block] !== undefined) return false;
    this.byKey.set(key, block);
    this.keys[block] = key;
    this.unsummed.push(block);
    return true;
  }

  /** As {@link note}, of a block's first rows, whose checksum is known. */
  notePart(block: number, key: number, checksum: bigint): NotedBlock | undefined {
    if (this.byKey.has(key) || this.keys[block] !== undefined) return undefined;
    this.byKey.set(key, block);
    this.keys[block] = key;
    this.checksums[block] = checksum;
    this.parts.add(block);
    return { block, key };
  }

  /** True if {@link notePart} has made this findable, and it still is. */
  isPart({ block, key }: NotedBlock): boolean {
    return this.parts.has(block) && this.keys[block] === key;
  }

  /** Findable blocks whose checksum is to be asked for; each is returned once. */
  takeUnsummed(): readonly NotedBlock[] {
    if (this.unsummed.length === 0) return [];
    const taken = this.unsummed.flatMap((block) => (this.checksums[block] === undefined ? this.notedBlock(block) : []));
    this.unsummed = [];
    return taken;
  }

  /** Drops the list of blocks whose checksums are to be requested. */
  skipUnsummed(): void {
    if (this.unsummed.length > 0) this.unsummed = [];
  }

  /** Number of blocks whose checksum is still to be asked for. */
  get unsummedCount(): number {
    return this.unsummed.length;
  }

  /** A block's checksum came; it counts if the block still has the content that it had. */
  addChecksum({ block, key }: NotedBlock, checksum: bigint): void {
    if (this.keys[block] === key) this.checksums[block] = checksum;
  }

  /** The checksum of a block came, with the step that completed it. */
  addMissing(block: number, checksum: bigint): void {
    if (this.keys[block] !== undefined && !this.parts.has(block)) this.checksums[block] ??= checksum;
  }

  /** Whole findable blocks that have a checksum; all others are not findable any more. No sequence may hold a block. */
  keepSummed(): readonly NotedBlock[] {
    this.unsummed = [];
    const summed: NotedBlock[] = [];
    for (const block of this.byKey.values()) {
      if (this.checksums[block] === undefined) this.forget(block);
      else if (!this.parts.has(block)) summed.push(...this.notedBlock(block));
    }
    return summed;
  }

  /** Free blocks with whole findable content, those first that are taken last. */
  recent(): readonly NotedBlock[] {
    const recent: NotedBlock[] = [];
    for (let block = this.previous[0] as number; block !== 0; block = this.previous[block] as number) {
      if (!this.parts.has(block)) recent.push(...this.notedBlock(block));
    }
    return recent;
  }

  /**
   * Takes in content that another executor has computed: the block that is taken first becomes the one that is taken last.
   *
   * @returns the block that is to hold it
   */
  restore(key: number, checksum: bigint): NotedBlock {
    if (this.byKey.has(key)) throw new RangeError(`${key} is findable already`);
    const [block] = this.allocate(1) as [number];
    this.release(block);
    this.byKey.set(key, block);
    this.keys[block] = key;
    this.checksums[block] = checksum;
    const restored = { block, key };
    this.restored[block] = restored;
    return restored;
  }

  /** No content is findable any more. */
  forgetAll(): void {
    for (const block of [...this.byKey.values()]) this.forget(block);
  }

  /** Compares a block's checksum to the one that it had. If they differ, its content is not findable any more. */
  verify({ block, key }: NotedBlock, checksum: bigint): boolean {
    if (this.keys[block] !== key || this.checksums[block] === checksum) return true;
    this.forget(block);
    return false;
  }

  /** A block's checksum came, of content that may have one. @returns false if they differ: its content is not findable any more */
  confirm(noted: NotedBlock, checksum: bigint): boolean {
    if (this.keys[noted.block] !== noted.key) return false;
    this.checksums[noted.block] ??= checksum;
    return this.verify(noted, checksum);
  }

  private notedBlock(block: number): readonly NotedBlock[] {
    const key = this.keys[block];
    return key === undefined ? [] : [{ block, key }];
  }

  /**
   * Verifies the reference counts against the block tables of sequences; throws unless each block is free, or held as often as counted.
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
    for (const [key, block] of this.byKey) {
      if (this.keys[block] !== key) throw new Error(`block ${block} is findable by a number it does not have`);
    }
  }

  /** A holder is going to write something else to a block. */
  forget(block: number): void {
    const key = this.keys[block];
    if (key === undefined) return;
    this.byKey.delete(key);
    this.keys[block] = undefined;
    this.checksums[block] = undefined;
    this.restored[block] = undefined;
    this.parts.delete(block);
  }

  private unlink(block: number): void {
    const before = this.previous[block] as number;
    const after = this.next[block] as number;
    this.next[before] = after;
    this.previous[after] = before;
    this.free -= 1;
  }

  /** @param after in the ring, the block that is taken next; 0: this one is taken last */
  private link(block: number, after = 0): void {
    const before = this.previous[after] as number;
    this.next[before] = block;
    this.previous[block] = before;
    this.next[block] = after;
    this.previous[after] = block;
    this.free += 1;
  }
}
