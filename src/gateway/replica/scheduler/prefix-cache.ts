import { NO_PREFIX, type Promised } from '../../request/prefix.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS, type BlockManager, hashOf } from './block-manager.js';
import { PromisedPrefixes } from './promised-prefixes.js';
import type { FoundWindow, WindowBlocks } from './window-blocks.js';

/** The blocks of a prompt's beginning that were computed before. */
export interface FoundPrefix {
  readonly blocks: readonly number[];
  /** What layers with a window see of it. */
  readonly windowed: FoundWindow;
  /** Its number in the block manager. */
  readonly prefix: number;
  /** Its hash, as {@link PromisedPrefixes} goes on from. */
  readonly hash: number;
}

const NO_TOKENS = new Uint32Array(0);

/** Finds the beginnings of prompts among blocks that were computed before or are being computed. Pure. */
export class PrefixCache {
  private readonly promised = new PromisedPrefixes();

  /** @param enabled without it nothing is found and nothing kept */
  constructor(
    private readonly blocks: BlockManager,
    private readonly windows: WindowBlocks,
    private readonly enabled: boolean,
  ) {}

  /** Whether a sequence may take what others computed. */
  isFor(sequence: Sequence): boolean {
    return this.enabled && (sequence.options.takesPrefix ?? true);
  }

  /** The longest findable run of full blocks that leaves at least one token to compute, and whose end's window is findable. */
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
    const windowed = this.windows.find(prefixes);
    const { count } = windowed;
    let hash = 0;
    for (let i = 0; i < count; i++) hash = hashOf(hash, ids.subarray(i * BLOCK_TOKENS, (i + 1) * BLOCK_TOKENS));
    return { blocks: blocks.slice(0, count), windowed, prefix: prefixes[count - 1] ?? NO_PREFIX, hash };
  }

  /** Who computes what a sequence needs next. */
  awaited(sequence: Sequence, found: FoundPrefix): Promised | undefined {
    return this.isFor(sequence) ? this.promised.find(sequence, found.blocks.length, found.hash) : undefined;
  }

  /** The sequence is going to compute what it knows beyond what was found. */
  promise(sequence: Sequence, found: FoundPrefix): void {
    if (this.enabled) this.promised.promise(sequence, found.blocks.length, found.hash);
  }

  /** The sequence computes nothing any more. */
  forget(sequence: Sequence): void {
    this.promised.forget(sequence);
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

  /** The blocks belong to a new executor, whose contents are unknown. */
  reset(): void {
    this.promised.clear();
  }
}
