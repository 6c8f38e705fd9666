import { type BlockKind, eachChecksum, KINDS, NO_BLOCKS, type PlannedChecksums } from './block-checksums.js';
import type { BlockManager, CachedBlock } from './block-manager.js';
import type { BlockPool, NotedBlock } from './block-pool.js';

/** Bytes that a step copies: none is to miss its deadline. */
const STEP_BYTES = 64 << 20;
/** The most blocks of such a step. */
const STEP_BLOCKS = 4096;

/** Content of a block that the host's memory has a copy of. */
interface SavedBlock {
  readonly key: number;
  /** Undefined for blocks that are not found by their tokens. */
  readonly content: CachedBlock | undefined;
  readonly checksum: bigint;
}

/** Blocks of one kind that lie one behind the other in the host's memory. */
interface SavedRun {
  readonly kind: BlockKind;
  /** Offset of the first, in bytes. */
  readonly at: number;
  readonly blocks: readonly SavedBlock[];
}

/** Blocks that the host's memory has copies of; of each kind those first that were used last. */
export interface SavedContents {
  /** Bytes of a block of each kind. */
  readonly bytes: Readonly<Record<BlockKind, number>>;
  readonly runs: readonly SavedRun[];
}

/** Pools of blocks by kind. */
interface Pools extends Readonly<Record<BlockKind, BlockPool>> {
  readonly blocks: BlockManager;
}

/**
 * Copies what can be found to the host's memory before a model is unloaded, and makes it findable again when it is loaded. Both take
 * steps of their own, which have nothing else.
 */
export class BlockSaving {
  private bytes: Readonly<Record<BlockKind, number>> = { blocks: 0, windowBlocks: 0, snapshots: 0 };
  private planned: PlannedChecksums[] = [];
  private runs: SavedRun[] = [];
  private readonly outstanding = new Set<PlannedChecksums>();
  private hasBegun = false;

  constructor(private readonly pools: Pools) {}

  /** True from {@link begin} on until what it began has ended or was canceled. */
  get isUnderWay(): boolean {
    return this.hasBegun && !this.isComplete;
  }

  /** True if everything has been copied that there is room for. */
  get isComplete(): boolean {
    return this.hasBegun && this.planned.length + this.outstanding.size === 0;
  }

  /** Copies that are complete. */
  get contents(): SavedContents | undefined {
    return this.isComplete ? { bytes: this.bytes, runs: this.runs } : undefined;
  }

  /**
   * Plans copies of what can be found; if there is not room for all, of the same share of each kind, that was used last.
   *
   * @param bytes of a block of each kind
   * @param most bytes of all
   */
  begin(bytes: Readonly<Record<BlockKind, number>>, most: number): void {
    this.cancel();
    this.bytes = bytes;
    this.hasBegun = true;
    const recent = KINDS.map((kind) => this.pools[kind].recent());
    const total = KINDS.reduce((sum, kind, i) => sum + bytes[kind] * (recent[i] as readonly NotedBlock[]).length, 0);
    const share = Math.min(1, most / Math.max(1, total));
    let at = 0;
    for (const [i, kind] of KINDS.entries()) {
      const all = recent[i] as readonly NotedBlock[];
      const kept = all.slice(0, Math.floor(share * all.length));
      const size = Math.max(1, Math.min(STEP_BLOCKS, Math.floor(STEP_BYTES / Math.max(1, bytes[kind]))));
      for (let first = 0; first < kept.length; first += size) {
        const blocks = kept.slice(first, first + size);
        this.planned.push({ ...NO_BLOCKS, [kind]: blocks, isComparison: false, saveAt: at });
        at += bytes[kind] * blocks.length;
      }
    }
  }

  /** The next step's; undefined: all are under way. */
  next(): PlannedChecksums | undefined {
    const next = this.planned.shift();
    if (next !== undefined) this.outstanding.add(next);
    return next;
  }

  /**
   * A step has copied blocks.
   *
   * @param bytes their checksums
   * @returns number of blocks that differ from what they were, and are not findable any more
   */
  returned(planned: PlannedChecksums, bytes: Uint8Array): number {
    if (!this.outstanding.delete(planned)) return 0;
    let damaged = 0;
    const saved: SavedBlock[] = [];
    let of: BlockKind = 'blocks';
    eachChecksum(planned, bytes, (kind, block, checksum) => {
      of = kind;
      const content = kind === 'blocks' ? this.pools.blocks.contentOf(block) : undefined;
      if (!this.pools[kind].confirm(block, checksum)) damaged += 1;
      saved.push({ key: block.key, content, checksum });
    });
    // The copies of damaged blocks must not be found.
    if (damaged === 0) this.runs.push({ kind: of, at: planned.saveAt as number, blocks: saved });
    return damaged;
  }

  /** Something else is to be computed, or the executor is lost: copies are not needed, or too old. */
  cancel(): void {
    this.planned = [];
    this.runs = [];
    this.outstanding.clear();
    this.hasBegun = false;
  }

  /**
   * Makes copies findable, in pools where nothing is found yet.
   *
   * @returns steps that bring them back; nothing may be found before they have returned, and their checksums agree
   */
  restore({ runs }: SavedContents): PlannedChecksums[] {
    const room = { blocks: 0, windowBlocks: 0, snapshots: 0 };
    for (const kind of KINDS) room[kind] = this.pools[kind].freeCount;
    const fitting = runs.map((run) => {
      const blocks = run.blocks.slice(0, room[run.kind]);
      room[run.kind] -= blocks.length;
      return { ...run, blocks };
    });
    const planned: PlannedChecksums[] = [];
    // Those that were used last are restored last.
    for (const { kind, at, blocks } of fitting.reverse()) {
      const restored: NotedBlock[] = [];
      for (const { key, content, checksum } of [...blocks].reverse()) {
        const block = content
          ? this.pools.blocks.restoreContent(content, checksum)
          : this.pools[kind].restore(key, checksum);
        restored.push(block);
      }
      if (restored.length > 0)
        planned.push({ ...NO_BLOCKS, [kind]: restored.reverse(), isComparison: true, restoreAt: at });
    }
    return planned.reverse();
  }
}
