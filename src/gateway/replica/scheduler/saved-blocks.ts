import { NO_PREFIX } from '../../request/prefix.js';
import { type BlockKind, eachChecksum, KINDS, NO_BLOCKS, type PlannedChecksums } from './block-checksums.js';
import type { BlockManager, CachedBlock } from './block-manager.js';
import type { BlockPool, NotedBlock } from './block-pool.js';
import type { RestoredRun } from './block-restores.js';

/** Bytes that a step copies: none is to miss its deadline, and sequences that run wait for it. */
const STEP_BYTES = 32 << 20;
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
  /** No prefix has a higher number: keys of blocks that are not found by their tokens are such numbers. */
  readonly lastPrefix: number;
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
  /** Steps that go on copying though nothing is to be copied any more. */
  private readonly canceled = new Set<PlannedChecksums>();
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

  /** True if a step that was planned may still write to the host's memory. */
  get isWriting(): boolean {
    return this.outstanding.size + this.canceled.size > 0;
  }

  /** Copies that are complete. */
  get contents(): SavedContents | undefined {
    if (!this.isComplete) return undefined;
    return { bytes: this.bytes, runs: this.runs, lastPrefix: this.pools.blocks.lastPrefix };
  }

  /**
   * Plans copies of what can be found; if there is not room for all, of what was used last.
   *
   * @param bytes of a block of each kind
   * @param most bytes of all
   * @param mostStep bytes of a step
   */
  begin(bytes: Readonly<Record<BlockKind, number>>, most: number, mostStep = STEP_BYTES): void {
    this.cancel();
    this.bytes = bytes;
    this.hasBegun = true;
    const chosen = this.pools.snapshots.cachedCount > 0 ? this.chosenWithSnapshots(most) : this.chosenAlike(most);
    let at = 0;
    for (const kind of KINDS) {
      const kept = chosen[kind];
      const size = Math.max(1, Math.min(STEP_BLOCKS, Math.floor(mostStep / Math.max(1, bytes[kind]))));
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
   * A step has copied blocks, or could not.
   *
   * @param bytes their checksums
   * @param isCopied false: the host's memory could not be written, and no more is copied
   * @returns number of blocks that differ from what they were, and are not findable any more
   */
  returned(planned: PlannedChecksums, bytes: Uint8Array, isCopied: boolean): number {
    this.canceled.delete(planned);
    if (!this.outstanding.delete(planned)) return 0;
    if (!isCopied) this.planned = [];
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
    if (damaged === 0 && isCopied) this.runs.push({ kind: of, at: planned.saveAt as number, blocks: saved });
    return damaged;
  }

  /** Something else is to be computed: copies would be too old. */
  cancel(): void {
    this.planned = [];
    this.runs = [];
    for (const planned of this.outstanding) this.canceled.add(planned);
    this.outstanding.clear();
    this.hasBegun = false;
  }

  /** The executor is lost, with the steps under way. */
  abandon(): void {
    this.cancel();
    this.canceled.clear();
  }

  /** The same share of each kind. */
  private chosenAlike(most: number): Readonly<Record<BlockKind, readonly NotedBlock[]>> {
    const { blocks, windowBlocks, snapshots } = this.pools;
    const recent = { blocks: blocks.recent(), windowBlocks: windowBlocks.recent(), snapshots: snapshots.recent() };
    const total = KINDS.reduce((sum, kind) => sum + this.bytes[kind] * recent[kind].length, 0);
    const share = Math.min(1, most / Math.max(1, total));
    const kept = (kind: BlockKind) => recent[kind].slice(0, Math.floor(share * recent[kind].length));
    return { blocks: kept('blocks'), windowBlocks: kept('windowBlocks'), snapshots: kept('snapshots') };
  }

  /** Snapshots, each with the blocks up to where it stands: without one of these it is of no use, nor are others without it. */
  private chosenWithSnapshots(most: number): Readonly<Record<BlockKind, readonly NotedBlock[]>> {
    const { blocks, snapshots } = this.pools;
    const byPrefix = new Map<number, NotedBlock>();
    for (const block of blocks.recent()) byPrefix.set(blocks.contentOf(block).prefix, block);
    const chosen = new Set<NotedBlock>();
    const kept: NotedBlock[] = [];
    let left = most;
    for (const snapshot of snapshots.recent()) {
      const before: NotedBlock[] = [];
      let prefix = snapshot.key;
      for (let block = byPrefix.get(prefix); block !== undefined; block = byPrefix.get(prefix)) {
        if (!chosen.has(block)) before.push(block);
        prefix = blocks.contentOf(block).parent;
      }
      const bytes = this.bytes.snapshots + this.bytes.blocks * before.length;
      if (prefix !== NO_PREFIX || bytes > left) continue;
      left -= bytes;
      kept.push(snapshot);
      // Ends are lost first if there is less room later.
      for (const block of before.reverse()) chosen.add(block);
    }
    return { blocks: [...chosen], windowBlocks: [], snapshots: kept };
  }

  /**
   * Makes copies findable, in pools where nothing is found yet.
   *
   * @returns what is to be brought back to them, those first that were used last
   */
  restore({ runs, lastPrefix }: SavedContents): readonly RestoredRun[] {
    this.pools.blocks.beginAbove(lastPrefix);
    const room = { blocks: 0, windowBlocks: 0, snapshots: 0 };
    for (const kind of KINDS) room[kind] = this.pools[kind].freeCount;
    const fitting = runs.map((run) => {
      const blocks = run.blocks.slice(0, room[run.kind]);
      room[run.kind] -= blocks.length;
      return { ...run, blocks };
    });
    const restored: RestoredRun[] = [];
    // Those that were used last are restored last.
    for (const { kind, at, blocks: saved } of fitting.reverse()) {
      const blocks = [...saved].reverse().map(({ key, content, checksum }) => {
        return content ? this.pools.blocks.restoreContent(content, checksum) : this.pools[kind].restore(key, checksum);
      });
      if (blocks.length > 0) restored.push({ kind, at, blocks: blocks.reverse() });
    }
    return restored.reverse();
  }
}
