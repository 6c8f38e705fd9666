import type { ReplicaCounts } from './replica-counts.js';
import { BLOCK_TOKENS } from './scheduler/block-manager.js';

/** Load and capacity, as balancers of several gateways request them. */
export interface Load {
  /** Completions with a slot, and completions that wait for one. */
  readonly running: number;
  readonly waiting: number;
  /** The most completions that run at once. */
  readonly slots: number;
  /** The most rows of one step. */
  readonly stepTokens: number;
  /** Tokens that a KV block holds. */
  readonly blockTokens: number;
  readonly kvBlocks: number;
  readonly usedKvBlocks: number;
  /** Part of the KV blocks in use, 0 to 1: of those of windowed layers or of the others, whichever run out first. */
  readonly kvUsage: number;
}

export function loadOf(counts: ReplicaCounts): Load {
  const { running, waiting, slots, stepTokens, kvBlocks, freeKvBlocks, windowKvBlocks, freeWindowKvBlocks } = counts;
  const used = (all: number, free: number) => (all === 0 ? 0 : 1 - free / all);
  return {
    running,
    waiting,
    slots,
    stepTokens,
    blockTokens: BLOCK_TOKENS,
    kvBlocks,
    usedKvBlocks: kvBlocks - freeKvBlocks,
    kvUsage: Math.max(used(kvBlocks, freeKvBlocks), used(windowKvBlocks, freeWindowKvBlocks)),
  };
}
