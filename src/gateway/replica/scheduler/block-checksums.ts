import type { BlockPool, NotedBlock } from './block-pool.js';

/** Bytes of a checksum. */
export const CHECKSUM_BYTES = 8;

/** The most blocks of a step that compares checksums. */
const MOST_COMPARED_BLOCKS = 4096;

/** Kinds of blocks, in the order of their checksums. */
export const KINDS = ['blocks', 'windowBlocks', 'snapshots'] as const;
export type BlockKind = (typeof KINDS)[number];

/** Blocks whose checksums a step returns. */
export interface PlannedChecksums extends Readonly<Record<BlockKind, readonly NotedBlock[]>> {
  /** They are compared to those that the blocks had. */
  readonly isComparison: boolean;
  /** Offset in the host's memory to which the blocks are copied, or from which they are before their checksums are computed. */
  readonly saveAt?: number;
  readonly restoreAt?: number;
}

/** Blocks of all kinds. */
export const blocksOf = (planned: PlannedChecksums | undefined): number =>
  planned === undefined ? 0 : KINDS.reduce((sum, kind) => sum + planned[kind].length, 0);

/** Calls with each block of a step and its checksum. @param bytes {@link CHECKSUM_BYTES} of each block */
export function eachChecksum(
  planned: PlannedChecksums,
  bytes: Uint8Array,
  call: (kind: BlockKind, block: NotedBlock, checksum: bigint) => void,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  for (const kind of KINDS) {
    for (const block of planned[kind]) {
      call(kind, block, view.getBigUint64(at, true));
      at += CHECKSUM_BYTES;
    }
  }
}

/** Bytes of one block of each kind, and the most that a step compares: none is to miss its deadline. */
export interface BlockBytes extends Readonly<Record<BlockKind, number>> {
  readonly mostCompared: number;
}

/**
 * Checksums of blocks that can be found: computed by an executor once the step that completed a block has returned, and kept here,
 * where no fault of an executor can reach them. After such a fault only blocks whose checksum is what it was are found again.
 */
export class BlockChecksums {
  /** False: the executor's memory ends with it. */
  isWanted = false;
  private isSuspect = false;
  /** An executor was lost while it compared; one that faulted so must not be followed by others that do the same. */
  private wasComparing = false;
  private isHopeless = false;
  private comparisons: PlannedChecksums[] = [];
  private outstanding = 0;

  constructor(private readonly pools: Readonly<Record<BlockKind, BlockPool>>) {}

  /** True while it is not known which blocks are intact: nothing may be found. */
  get isComparing(): boolean {
    return this.comparisons.length + this.outstanding > 0;
  }

  /** An executor faulted: it may have written anywhere. Lasts until all blocks have been compared or forgotten. */
  suspect(): void {
    this.isSuspect = true;
    this.isHopeless ||= this.wasComparing;
  }

  /** Another executor has the same memory. */
  begin(bytes: BlockBytes): void {
    this.wasComparing = false;
    if (this.isHopeless) for (const kind of KINDS) this.pools[kind].forgetAll();
    if (this.isHopeless) this.reset();
    if (!this.isSuspect) return;
    this.comparisons = KINDS.flatMap((kind) => {
      const blocks = this.pools[kind].keepSummed();
      const most = Math.max(
        1,
        Math.min(MOST_COMPARED_BLOCKS, Math.floor(bytes.mostCompared / Math.max(1, bytes[kind]))),
      );
      return Array.from({ length: Math.ceil(blocks.length / most) }, (_, i) => ({
        ...NO_BLOCKS,
        [kind]: blocks.slice(i * most, (i + 1) * most),
        isComparison: true,
      }));
    });
    this.isSuspect = this.isComparing;
  }

  /** The next step's, while {@link isComparing}; undefined: all are under way. */
  nextComparison(): PlannedChecksums | undefined {
    const next = this.comparisons.shift();
    if (next !== undefined) this.outstanding += 1;
    return next;
  }

  /** Those of blocks that became findable since the last call; undefined: none. */
  take(): PlannedChecksums | undefined {
    const { blocks, windowBlocks, snapshots } = this.pools;
    if (!this.isWanted) {
      for (const kind of KINDS) this.pools[kind].skipUnsummed();
      return undefined;
    }
    const taken: PlannedChecksums = {
      blocks: blocks.takeUnsummed(),
      windowBlocks: windowBlocks.takeUnsummed(),
      snapshots: snapshots.takeUnsummed(),
      isComparison: false,
    };
    return blocksOf(taken) === 0 ? undefined : taken;
  }

  /**
   * A step has returned checksums.
   *
   * @param bytes {@link CHECKSUM_BYTES} of each block
   * @returns number of blocks that a fault has damaged
   */
  returned(planned: PlannedChecksums, bytes: Uint8Array): number {
    let damaged = 0;
    eachChecksum(planned, bytes, (kind, block, checksum) => {
      const pool = this.pools[kind];
      if (!planned.isComparison) pool.addChecksum(block, checksum);
      else if (!pool.verify(block, checksum)) damaged += 1;
    });
    if (planned.isComparison) {
      this.outstanding -= 1;
      this.isSuspect = this.isComparing;
    }
    return damaged;
  }

  /** The executor is lost, with the steps under way. */
  abandon(): void {
    this.wasComparing = this.isComparing;
    this.comparisons = [];
    this.outstanding = 0;
  }

  /** The contents are forgotten. */
  reset(): void {
    this.abandon();
    this.isSuspect = false;
    this.wasComparing = false;
    this.isHopeless = false;
  }
}

export const NO_BLOCKS: Readonly<Record<BlockKind, readonly NotedBlock[]>> = {
  blocks: [],
  windowBlocks: [],
  snapshots: [],
};
