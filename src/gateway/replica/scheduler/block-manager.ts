import { NO_PREFIX } from '../../request/prefix.js';
import { BlockPool, type NotedBlock } from './block-pool.js';

/** Tokens a KV block holds. */
export const BLOCK_TOKENS = 16;

/** Blocks that hold `tokens` tokens. */
export function blocksFor(tokens: number): number {
  return Math.ceil(tokens / BLOCK_TOKENS);
}

/** A block whose content, or that of its first rows, is known, findable by the prefix before it and its tokens. */
export interface CachedBlock {
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
 * The KV blocks of layers that see everything: a sequence holds those of all its positions.
 *
 * A block continues a prefix, and each content that becomes findable gives the prefix up to it a number that is never used
 * again. Hashes only say where to look: two prompts share a block if they are equal token for token, whatever collides.
 */
export class BlockManager extends BlockPool {
  /** By block; of those that are findable, the last that was noted. */
  private readonly contents: CachedBlock[] = [];
  private prefixes = NO_PREFIX;

  /** The block that holds exactly these tokens after a prefix, by the number that {@link register} gave it. */
  find(parent: number, ids: Uint32Array): FoundBlock | undefined {
    const block = this.noted(hashOf(parent, ids));
    if (block === undefined) return undefined;
    const entry = this.contents[block] as CachedBlock;
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
    if (this.note(block, hashOf(parent, ids))) this.contents[block] = { parent, ids, prefix };
    return prefix;
  }

  /**
   * Makes the first rows of a block findable, whose checksum is known.
   *
   * @returns what they are found by; undefined where they are findable already, or the block is by something else
   */
  registerPart(
    block: number,
    parent: number,
    ids: Uint32Array,
    checksum: bigint,
  ): { readonly noted: NotedBlock; readonly prefix: number } | undefined {
    const noted = this.notePart(block, hashOf(parent, ids), checksum);
    if (noted === undefined) return undefined;
    const prefix = ++this.prefixes;
    this.contents[block] = { parent, ids, prefix };
    return { noted, prefix };
  }

  /** Content of a findable block. */
  contentOf({ block }: NotedBlock): CachedBlock {
    return this.contents[block] as CachedBlock;
  }

  /** The last number that a prefix has been given. */
  get lastPrefix(): number {
    return this.prefixes;
  }

  /** Prefixes are given numbers above this one. */
  beginAbove(prefix: number): void {
    this.prefixes = Math.max(this.prefixes, prefix);
  }

  /** As {@link restore}, of content that this or another scheduler's {@link contentOf} has named. */
  restoreContent(content: CachedBlock, checksum: bigint): NotedBlock {
    const restored = this.restore(hashOf(content.parent, content.ids), checksum);
    this.contents[restored.block] = content;
    return restored;
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
