import { RocmForgeError } from '../../shared/errors.js';
import { mostSeenBlocks } from '../../shared/kv-window.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import { kvBlockBytes } from '../model/kv-cache.js';
import { blocksFor } from '../model/slot-layout.js';
import type { HeadShape } from '../model/values.js';
import type { WindowedLayers } from '../model/windows.js';
import { type BlockCounts, EXPECTED_CONTEXT, type LoadOptions, type OwnLimits } from './load-options.js';

/** Steps under way at once where nobody says otherwise. */
const STEPS_UNDER_WAY = 2;

/**
 * KV blocks that a model gets: at most those of every sequence at its longest, and never less than one's.
 *
 * Layers with a window get enough that blocks of the others run out first: for every slot its window, and for the rows of all
 * steps under way. As much again keeps windows findable of prompts that come again. Where memory is short, they get enough for
 * as many slots as can also have room for what is expected of a sequence.
 */
export class BlockBudget {
  /** Bytes of one block over the layers that see everything, and over those with a window. */
  private readonly fullBytes: number;
  private readonly windowedBytes: number;
  private readonly context: number;

  /**
   * @param shapes of the layers with keys and values
   * @param windows undefined: all layers see everything
   */
  constructor(
    private readonly options: LoadOptions,
    shapes: ReadonlyMap<number, HeadShape>,
    private readonly windows: WindowedLayers | undefined,
  ) {
    const bytesOf = (isSlidingWindow: boolean) => {
      const own = [...shapes].filter(([layer]) => (windows?.layers.has(layer) ?? false) === isSlidingWindow);
      return kvBlockBytes(
        own.map(([, shape]) => shape),
        options.kvCacheType,
      );
    };
    this.fullBytes = bytesOf(false);
    this.windowedBytes = bytesOf(true);
    this.context = blocksFor(options.maxContext);
  }

  /** Bytes without which not even one sequence fits. */
  leastBytes(limits: OwnLimits): number {
    return this.fullBytes * (1 + this.context) + this.windowedBytes * (1 + this.leastWindowed(limits));
  }

  /** Bytes of a sequence of {@link EXPECTED_CONTEXT} positions, or of as many as one may have. */
  get expectedBytes(): number {
    return this.fullBytes * this.expected + this.windowedBytes * Math.min(this.expected, this.ofSlot);
  }

  /** Blocks as the options ask, the null blocks included: nobody owns block 0. */
  wanted(limits: OwnLimits): BlockCounts {
    const { kvMemoryBytes } = this.options;
    if (kvMemoryBytes !== 0) return this.within(kvMemoryBytes, limits);
    return this.counts(this.mostFull(limits), this.mostWindowed(limits));
  }

  /** True if each sequence has room for what is expected of it. */
  holds(limits: OwnLimits, bytes: number): boolean {
    return this.slotsIn(this.granted(bytes), limits) === limits.maxSequences;
  }

  /** Blocks that fit in so many bytes, and in what the options ask. */
  within(bytes: number, limits: OwnLimits): BlockCounts {
    const granted = this.granted(bytes);
    const longest = this.longestIn(granted, limits);
    if (longest < this.context) {
      throw new RocmForgeError(
        'OUT_OF_MEMORY',
        `${bytes} bytes of KV cache hold ${Math.max(0, longest) * KV_BLOCK_TOKENS} tokens, less than one sequence of ` +
          `${this.options.maxContext}; give it more or lower the context`,
      );
    }
    const windowed = this.windowedOf(this.slotsIn(granted, limits), limits);
    const left = granted - windowed * this.windowedBytes;
    const full = Math.min(this.mostFull(limits), fitting(left, this.fullBytes));
    const spare = fitting(left - full * this.fullBytes, this.windowedBytes);
    return this.counts(full, Math.min(this.mostWindowed(limits), windowed + spare));
  }

  /** Blocks that nobody may own, and no others. */
  get nullBlocks(): BlockCounts {
    return this.counts(0, 0);
  }

  private counts(full: number, windowed: number): BlockCounts {
    const { windows } = this;
    return { kvBlocks: 1 + full, ...(windows && { windowed: { window: windows.window, blocks: 1 + windowed } }) };
  }

  private get expected(): number {
    return Math.min(this.context, blocksFor(EXPECTED_CONTEXT));
  }

  private mostFull({ maxSequences }: OwnLimits): number {
    return maxSequences * this.context;
  }

  private mostWindowed(limits: OwnLimits): number {
    const { maxSequences } = limits;
    const working = this.windowedOf(maxSequences, limits);
    return Math.min(this.mostFull(limits), working + maxSequences * this.ofSlot);
  }

  private get ofSlot(): number {
    return this.windows === undefined ? 0 : slotWindowBlocks(this.windows.window, this.options.maxContext);
  }

  /** Windowed blocks without which a sequence cannot have the largest step. */
  private leastWindowed({ maxStepTokens }: OwnLimits): number {
    if (this.windows === undefined) return 0;
    return Math.min(this.context, mostSeenBlocks(maxStepTokens, this.windows.window, KV_BLOCK_TOKENS));
  }

  /** Windowed blocks with which so many slots never wait for one; for none, what a single sequence needs. */
  private windowedOf(slots: number, limits: OwnLimits): number {
    if (this.windows === undefined) return 0;
    return Math.max(this.leastWindowed(limits), workingWindowBlocks(this.windows.window, limits, slots));
  }

  /** Number of slots for which so many bytes hold the expected blocks, besides one sequence at its longest. */
  private slotsIn(bytes: number, limits: OwnLimits): number {
    for (let slots = limits.maxSequences; slots > 0; slots--) {
      const full = Math.max(this.context, slots * this.expected);
      if (full * this.fullBytes + this.windowedOf(slots, limits) * this.windowedBytes <= bytes) return slots;
    }
    return 0;
  }

  /** Blocks of one sequence that so many bytes hold. */
  private longestIn(bytes: number, limits: OwnLimits): number {
    const windowed = this.leastWindowed(limits);
    const both = this.fullBytes + this.windowedBytes;
    if (bytes < windowed * both) return fitting(bytes, both);
    return fitting(bytes - windowed * this.windowedBytes, this.fullBytes);
  }

  /** Bytes for blocks that may be owned. */
  private granted(bytes: number): number {
    const { kvMemoryBytes } = this.options;
    const limit = kvMemoryBytes === 0 ? bytes : Math.min(bytes, kvMemoryBytes);
    return limit - this.fullBytes - this.windowedBytes;
  }
}

/** Windowed blocks of a slot that generates, and one more for where its rows of larger steps begin and end. */
export function slotWindowBlocks(window: number, maxContext: number): number {
  return Math.min(blocksFor(maxContext), 1 + mostSeenBlocks(STEPS_UNDER_WAY, window, KV_BLOCK_TOKENS));
}

/** Windowed blocks with which so many slots never wait for one: their windows, and the rows of all steps under way. */
export function workingWindowBlocks(window: number, limits: OwnLimits, slots: number): number {
  const { maxContext, maxStepTokens } = limits;
  const ofSteps = STEPS_UNDER_WAY * blocksFor(maxStepTokens);
  return Math.min(slots * blocksFor(maxContext), slots * slotWindowBlocks(window, maxContext) + ofSteps);
}

/** Number of blocks of that size that fit; blocks without layers take no memory. */
const fitting = (bytes: number, blockBytes: number): number =>
  blockBytes === 0 ? Number.POSITIVE_INFINITY : Math.floor(bytes / blockBytes);
