import { firstSeenBlock, mostSeenBlocks } from '../../../shared/kv-window.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS, blocksFor } from './block-manager.js';
import { BlockPool } from './block-pool.js';
import { isProtected } from './preemption.js';

/** Capacity of an executor for layers with a window. */
export interface WindowLimits {
  /** Positions that a row sees, its own included. */
  readonly window: number;
  /** KV blocks of these layers, their null block included. */
  readonly blocks: number;
}

/** The windowed part of a prefix that was computed before: what a position behind it sees. */
export interface FoundWindow {
  /** Blocks of the prefix. */
  readonly count: number;
  /** Which of them is the first whose windowed block is needed. */
  readonly start: number;
  readonly blocks: readonly number[];
}

/**
 * The KV blocks of layers with a window, of which a sequence holds those that a row under way or to come can see. A block
 * leaves when every row that could see it has returned; it stays findable until it is taken for something else. Without such
 * layers nobody needs any.
 */
export class WindowBlocks {
  readonly pool: BlockPool;
  private readonly window: number;
  /** The most blocks that a sequence needs to have a step at all. */
  private readonly mostNeeded: number;

  /** @param limits undefined: the model has no such layers */
  constructor(
    private readonly limits: WindowLimits | undefined,
    maxStepTokens: number,
  ) {
    this.pool = new BlockPool(limits?.blocks ?? 1);
    this.window = limits?.window ?? 0;
    this.mostNeeded = limits === undefined ? 0 : mostSeenBlocks(maxStepTokens, this.window, BLOCK_TOKENS);
  }

  /** True if the model has layers with a window. */
  get hasLayers(): boolean {
    return this.limits !== undefined;
  }

  /** Blocks that sequences may hold at all. */
  get capacity(): number {
    return this.pool.capacity;
  }

  get freeCount(): number {
    return this.pool.freeCount;
  }

  /** Blocks without which a sequence of so many positions cannot come to its end. */
  neededOf(positions: number): number {
    return Math.min(blocksFor(positions), this.mostNeeded);
  }

  /** Blocks that a sequence lacks to compute up to a position. */
  lacking({ windowStart, windowBlocks }: Sequence, end: number): number {
    return this.limits === undefined ? 0 : Math.max(0, blocksFor(end) - windowStart - windowBlocks.length);
  }

  /**
   * True if so many blocks are there for a sequence: others that may not be preempted keep what they will still need.
   *
   * @param running all that hold blocks
   */
  canAllocate(blocks: number, sequence: Sequence, running: readonly Sequence[]): boolean {
    if (blocks === 0) return true;
    let reserved = 0;
    for (const other of running) {
      if (other === sequence || !isProtected(other)) continue;
      // Shared blocks are not free when their sequence leaves.
      const own = other.windowBlocks.filter((block) => !this.pool.isShared(block)).length;
      reserved += Math.max(0, this.neededOf(other.lastPosition) - own);
    }
    return this.pool.canAllocate(blocks + reserved);
  }

  /**
   * True if the blocks are there with which a waiting sequence computes up to a position; for one that will not be preempted
   * again, all it may ever need. Blocks that it shares count as well: soon it needs as many of its own.
   *
   * @param watermark part of all blocks that is left to those that run
   */
  canAdmit(
    sequence: Sequence,
    end: number,
    { start, blocks }: FoundWindow,
    running: readonly Sequence[],
    watermark: number,
  ): boolean {
    if (this.limits === undefined) return true;
    const held = blocks.filter((block) => !this.pool.isFree(block)).length;
    const ever = isProtected(sequence) ? this.neededOf(sequence.lastPosition) + held : 0;
    const spare = Math.ceil(this.capacity * watermark);
    return this.canAllocate(Math.max(ever, blocksFor(end) - start) + spare, sequence, running);
  }

  /** Gives a sequence more blocks. @returns them */
  extend(sequence: Sequence, blocks: number): readonly number[] {
    const added = this.pool.allocate(blocks);
    sequence.windowBlocks.push(...added);
    return added;
  }

  /** Takes from a sequence what no row sees any more: of those under way the first begins at the position computed. */
  leave(sequence: Sequence): void {
    if (this.limits === undefined) return;
    const first = firstSeenBlock(sequence.computed, this.window, BLOCK_TOKENS);
    const left = sequence.windowBlocks.splice(0, Math.max(0, first - sequence.windowStart));
    for (const block of left) this.pool.release(block);
    sequence.windowStart += left.length;
  }

  /** Takes all that a sequence holds. */
  release(sequence: Sequence): void {
    for (const block of sequence.windowBlocks) this.pool.release(block);
    sequence.windowBlocks = [];
  }

  /**
   * Makes the block of a sequence findable by the number of the prefix up to it, which stands for its content: what all blocks of
   * this prefix have in common.
   *
   * @param index in the block table
   */
  register({ windowStart, windowBlocks }: Sequence, index: number, prefix: number): void {
    if (this.limits !== undefined) this.pool.note(windowBlocks[index - windowStart] as number, prefix);
  }

  /**
   * The longest beginning of a prefix after which a sequence can go on: all its blocks that the next position sees are there.
   *
   * @param prefixes of each block, the number of the prefix up to and including it
   */
  find(prefixes: readonly number[]): FoundWindow {
    if (this.limits === undefined) return { count: prefixes.length, start: 0, blocks: [] };
    const blocks = prefixes.map((prefix) => this.pool.noted(prefix));
    const startOf = (count: number) => firstSeenBlock(count * BLOCK_TOKENS, this.window, BLOCK_TOKENS);
    let longest = 0;
    /** Beginning of the run of present blocks. */
    let first = 0;
    for (const [i, block] of blocks.entries()) {
      const count = i + 1;
      if (block === undefined) first = count;
      if (startOf(count) >= first) longest = count;
    }
    const start = startOf(longest);
    return { count: longest, start, blocks: blocks.slice(start, longest) as number[] };
  }

  /** A prefix that was found, and a block behind it of which positions up to `end` are there: without what none from there on sees. */
  withTail({ count, start, blocks }: FoundWindow, block: number, end: number): FoundWindow {
    const first = Math.max(start, firstSeenBlock(end, this.window, BLOCK_TOKENS));
    return { count, start: first, blocks: [...blocks.slice(first - start), block] };
  }

  /** Gives a sequence, which holds none, the blocks of a prefix that was found. */
  share(sequence: Sequence, { start, blocks }: FoundWindow): void {
    for (const block of blocks) this.pool.share(block);
    sequence.windowStart = start;
    sequence.windowBlocks = [...blocks];
  }

  /** Empties everything; see {@link BlockPool.reset}. */
  reset(): void {
    this.pool.reset();
  }

  /** Throws when a block has not exactly one fate, or a sequence lacks one that a row of it can see. */
  check(holders: readonly Sequence[]): void {
    this.pool.check(holders.map(({ windowBlocks }) => windowBlocks));
    if (this.limits === undefined) return;
    for (const { computed, scheduled, windowStart, windowBlocks } of holders) {
      const first = firstSeenBlock(computed, this.window, BLOCK_TOKENS);
      if (windowStart <= first && windowStart + windowBlocks.length >= blocksFor(scheduled)) continue;
      const end = windowStart + windowBlocks.length;
      throw new Error(`windowed blocks from ${windowStart} to ${end} for positions from ${computed} to ${scheduled}`);
    }
  }
}
