import type { InFlightPrefix } from '../../request/prefix.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS, hashOf } from './block-manager.js';

/**
 * Which full blocks running sequences are going to compute, so that others with the same prompt wait for those instead of
 * computing them as well. Kept by hash alone: a collision costs a wait, never a wrong block.
 */
export class InFlightPrefixes {
  private readonly makers = new Map<number, Sequence>();
  private readonly hashes = new Map<Sequence, number[]>();

  /** The sequence is going to compute what it knows from block `first` on; `hash` stands for what comes before. */
  promise(sequence: Sequence, first: number, hash: number): void {
    const ids = sequence.tokens();
    const hashes: number[] = [];
    for (let end = (first + 1) * BLOCK_TOKENS; end <= ids.length; end += BLOCK_TOKENS) {
      hash = hashOf(hash, ids.subarray(end - BLOCK_TOKENS, end));
      if (this.makers.has(hash)) continue;
      this.makers.set(hash, sequence);
      hashes.push(hash);
    }
    this.hashes.set(sequence, hashes);
  }

  /** The sequence computes nothing any more. */
  forget(sequence: Sequence): void {
    for (const hash of this.hashes.get(sequence) ?? []) this.makers.delete(hash);
    this.hashes.delete(sequence);
  }

  clear(): void {
    this.makers.clear();
    this.hashes.clear();
  }

  /** Producer of at least half of what a sequence needs from block `first` on. Arguments as for {@link promise}. */
  find(sequence: Sequence, first: number, hash: number): InFlightPrefix | undefined {
    const ids = sequence.tokens();
    let producer: Sequence | undefined;
    let blocks = first;
    for (let end = (first + 1) * BLOCK_TOKENS; end < ids.length; end += BLOCK_TOKENS) {
      hash = hashOf(hash, ids.subarray(end - BLOCK_TOKENS, end));
      const candidate = this.makers.get(hash);
      if (candidate === undefined || (producer !== undefined && candidate !== producer)) break;
      producer = candidate;
      blocks += 1;
    }
    if (producer === undefined || !isPending({ producer, blocks })) return undefined;
    const shared = (blocks - first) * BLOCK_TOKENS;
    return 2 * shared >= ids.length - first * BLOCK_TOKENS ? { producer, blocks } : undefined;
  }
}

/** True if the blocks are not there yet but will be. */
export function isPending({ producer, blocks }: InFlightPrefix): boolean {
  const isIdle = producer.paused || (producer.isLate && producer.isOpening);
  return producer.state === 'running' && !isIdle && producer.registeredBlocks < blocks;
}
