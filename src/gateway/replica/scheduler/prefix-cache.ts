import { type InFlightPrefix, NO_PREFIX } from '../../request/prefix.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS, type BlockManager, hashOf } from './block-manager.js';
import { InFlightPrefixes } from './in-flight-prefixes.js';
import type { StateSnapshots } from './state-snapshots.js';
import { hasDraftTokens, type PlannedSlice } from './step-plan.js';
import type { FoundWindow, WindowBlocks } from './window-blocks.js';

/** The blocks of a prompt's beginning that were computed before. */
export interface FoundPrefix {
  readonly blocks: readonly number[];
  /** Blocks of layers with a window. */
  readonly windowed: FoundWindow;
  /** Its number in the block manager. */
  readonly prefix: number;
  /** Number of further blocks that were found, with no state behind them. */
  readonly beyond: number;
  /** Its hash, as {@link InFlightPrefixes} goes on from. */
  readonly hash: number;
  /** The sequence's own block behind it, which is not full; see {@link PrefixCache.keepTail}. */
  readonly tail: FoundTail | undefined;
}

/** A block of which a sequence has computed a part. */
export interface FoundTail {
  readonly block: number;
  /** That of layers with a window; undefined where there are none. */
  readonly windowBlock: number | undefined;
  /** Position after its last one. */
  readonly end: number;
}

const NO_TOKENS = new Uint32Array(0);

/** Finds the beginnings of prompts among blocks that were computed before or are being computed. Pure. */
export class PrefixCache {
  private readonly inFlight = new InFlightPrefixes();

  /** @param enabled without it nothing is found and nothing kept */
  constructor(
    private readonly blocks: BlockManager,
    private readonly windows: WindowBlocks,
    /** Snapshots of a recurrent model. */
    private readonly snapshots: StateSnapshots | undefined,
    private readonly enabled: boolean,
  ) {}

  /** True if a sequence may take what was computed before: always once its prompt has been answered. */
  isFor({ options, emitted }: Sequence): boolean {
    return this.enabled && ((options.takesPrefix ?? true) || emitted.length > 0);
  }

  /** True if a sequence finds what another with its prompt has computed of that. */
  findsPrompt(sequence: Sequence): boolean {
    return this.isFor(sequence) && (this.snapshots?.keepsPrompt(sequence) ?? true);
  }

  /**
   * The longest findable run of full blocks that leaves at least one token to compute, and whose end's window is findable; of a
   * recurrent model, and the state at its end.
   */
  find(sequence: Sequence): FoundPrefix {
    const blocks: number[] = [];
    const prefixes: number[] = [];
    let prefix = NO_PREFIX;
    const ids = this.isFor(sequence) ? sequence.tokens() : NO_TOKENS;
    for (let end = BLOCK_TOKENS; end < ids.length; end += BLOCK_TOKENS) {
      const tokens = ids.subarray(end - BLOCK_TOKENS, end);
      const found = this.blocks.find(prefix, tokens);
      if (found === undefined) break;
      blocks.push(found.block);
      prefix = found.prefix;
      prefixes.push(prefix);
    }
    const windowed = this.reachOf(prefixes);
    const { count } = windowed;
    let hash = 0;
    for (let i = 0; i < count; i++) hash = hashOf(hash, ids.subarray(i * BLOCK_TOKENS, (i + 1) * BLOCK_TOKENS));
    const beyond = blocks.length - count;
    const before = prefixes[count - 1] ?? NO_PREFIX;
    const tail = beyond === 0 ? this.tailOf(sequence, ids, count * BLOCK_TOKENS, before) : undefined;
    return { blocks: blocks.slice(0, count), windowed, prefix: before, beyond, hash, tail };
  }

  private tailOf(
    { lostTokens, summedTokens }: Sequence,
    ids: Uint32Array,
    start: number,
    prefix: number,
  ): FoundTail | undefined {
    return this.tailUpTo(lostTokens, ids, start, prefix) ?? this.tailUpTo(summedTokens, ids, start, prefix);
  }

  private tailUpTo(end: number, ids: Uint32Array, start: number, prefix: number): FoundTail | undefined {
    if (end <= start || end - start >= BLOCK_TOKENS || end >= ids.length) return undefined;
    const found = this.blocks.find(prefix, ids.subarray(start, end));
    if (found === undefined) return undefined;
    const windowBlock = this.windows.pool.noted(found.prefix);
    if (this.windows.hasLayers && windowBlock === undefined) return undefined;
    return { block: found.block, windowBlock, end };
  }

  /**
   * The executor is lost: makes the positions findable that a sequence has computed of its last block, in case the next executor has the
   * same memory. What was under way has written behind them alone. A recurrent model continues from snapshots, and has none there.
   */
  keepTail(sequence: Sequence): void {
    const { computed, known, registeredBlocks, registeredPrefix, blocks } = sequence;
    const start = registeredBlocks * BLOCK_TOKENS;
    if (this.snapshots !== undefined || !this.isFor(sequence)) return;
    if (computed <= start || computed - start >= BLOCK_TOKENS || computed > known) return;
    const ids = Uint32Array.from({ length: computed - start }, (_, i) => sequence.token(start + i));
    const prefix = this.blocks.register(blocks[registeredBlocks] as number, registeredPrefix, ids);
    this.windows.register(sequence, registeredBlocks, prefix);
  }

  /** A sequence takes the tail that was found for it, and is going to write to it. */
  takeTail({ block, windowBlock }: FoundTail): void {
    this.blocks.share(block);
    this.blocks.forget(block);
    if (windowBlock !== undefined) this.windows.pool.forget(windowBlock);
  }

  /** A sequence begins behind what was found for it. */
  begin(sequence: Sequence, { blocks, prefix, beyond }: FoundPrefix): void {
    const { snapshots } = this;
    if (snapshots === undefined) return;
    if (blocks.length > 0) snapshots.begin(sequence, prefix, blocks.length * BLOCK_TOKENS);
    // It parts there from a prompt that was computed before: a third may do so, too.
    if (beyond > 0) snapshots.branch(sequence, (blocks.length + beyond) * BLOCK_TOKENS);
  }

  /** Length of a run of prefixes that is present for windows and states alike. */
  private reachOf(prefixes: readonly number[]): FoundWindow {
    let found = this.windows.find(prefixes);
    if (this.snapshots === undefined) return found;
    for (;;) {
      const count = this.snapshots.find(prefixes.slice(0, found.count));
      found = this.windows.find(prefixes.slice(0, count));
      if (found.count === count) return found;
    }
  }

  /** Producer of what a sequence needs next. */
  waitsFor(sequence: Sequence, found: FoundPrefix): InFlightPrefix | undefined {
    const { length } = found.blocks;
    const inFlight = this.isFor(sequence) ? this.inFlight.find(sequence, length, found.hash) : undefined;
    if (inFlight === undefined || this.snapshots === undefined) return inFlight;
    const { producer, blocks } = inFlight;
    return this.snapshots.ask(producer, blocks * BLOCK_TOKENS, length * BLOCK_TOKENS) ? inFlight : undefined;
  }

  /** The sequence is going to compute what it knows beyond what was found. */
  promise(sequence: Sequence, found: FoundPrefix): void {
    if (this.enabled) this.inFlight.promise(sequence, found.blocks.length, found.hash);
  }

  /** The sequence computes nothing any more. */
  forget(sequence: Sequence): void {
    this.inFlight.forget(sequence);
  }

  /** Makes the full blocks that a sequence has computed findable. */
  register(sequence: Sequence): void {
    if (!this.enabled) return;
    const full = Math.floor(sequence.computed / BLOCK_TOKENS);
    for (let i = sequence.registeredBlocks; i < full; i++) {
      const ids = Uint32Array.from({ length: BLOCK_TOKENS }, (_, j) => sequence.token(i * BLOCK_TOKENS + j));
      sequence.registeredPrefix = this.blocks.register(sequence.blocks[i] as number, sequence.registeredPrefix, ids);
      this.windows.register(sequence, i, sequence.registeredPrefix);
    }
    sequence.registeredBlocks = Math.max(sequence.registeredBlocks, full);
  }

  /** A slice has returned, was not late, and its blocks are registered. */
  returned(slice: PlannedSlice): void {
    const { sequence, position, count, toSnapshot } = slice;
    const { registeredBlocks, registeredPrefix } = sequence;
    // With draft tokens, a slice writes the states before it.
    const isKnown = registeredBlocks * BLOCK_TOKENS === position + (hasDraftTokens(slice) ? 0 : count);
    this.snapshots?.returned(sequence, position, toSnapshot, isKnown ? registeredPrefix : undefined);
  }

  /** The blocks belong to a new executor, whose contents are unknown. */
  reset(): void {
    this.inFlight.clear();
  }
}
