import type { BlockPool, NotedBlock } from './block-pool.js';
import type { OpenBlocks, PlannedOpenBlock } from './open-blocks.js';

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
  /** Blocks of which the first rows are summed, behind the step's slices; default none. */
  readonly open?: readonly PlannedOpenBlock[];
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

/** Number of checksums that a step returns of first rows. */
export const openSumsOf = (planned: PlannedChecksums | undefined): number =>
  (planned?.open ?? []).reduce((sum, { windowBlock }) => sum + (windowBlock === undefined ? 1 : 2), 0);

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

  constructor(
    private readonly pools: Readonly<Record<BlockKind, BlockPool>>,
    private readonly open: OpenBlocks,
  ) {}

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
    if (!this.isSuspect) {
      this.open.trust();
      return;
    }
    const mostOf = (size: number): number =>
      Math.max(1, Math.min(MOST_COMPARED_BLOCKS, Math.floor(bytes.mostCompared / Math.max(1, size))));
    const kept = KINDS.flatMap((kind) => {
      const some = partsOf(this.pools[kind].keepSummed(), mostOf(bytes[kind]));
      return some.map((blocks) => ({ ...NO_BLOCKS, [kind]: blocks, isComparison: true }));
    });
    const open = partsOf(this.open.suspect(), mostOf(bytes.blocks + bytes.windowBlocks));
    this.comparisons = [...kept, ...open.map((some) => ({ ...NO_BLOCKS, open: some, isComparison: true }))];
    this.isSuspect = this.isComparing;
  }

  /** The next step's, while {@link isComparing}; undefined: all are under way. */
  nextComparison(): PlannedChecksums | undefined {
    const next = this.comparisons.shift();
    if (next !== undefined) this.outstanding += 1;
    return next;
  }

  /**
   * Those of blocks that became findable since the last call, and those of the blocks that a step writes to; undefined: none.
   *
   * @param written the step's
   */
  take(written: readonly PlannedOpenBlock[]): PlannedChecksums | undefined {
    const { blocks, windowBlocks, snapshots } = this.pools;
    if (!this.isWanted) {
      for (const kind of KINDS) this.pools[kind].skipUnsummed();
      return undefined;
    }
    const taken: PlannedChecksums = {
      blocks: blocks.takeUnsummed(),
      windowBlocks: windowBlocks.takeUnsummed(),
      snapshots: snapshots.takeUnsummed(),
      open: written,
      isComparison: false,
    };
    return blocksOf(taken) + written.length === 0 ? undefined : taken;
  }

  /**
   * A step has returned checksums of first rows, and what it has computed is registered.
   *
   * @param bytes {@link CHECKSUM_BYTES} of each block, then of each block of layers with a window
   * @returns number of blocks that a fault has damaged
   */
  openReturned({ open = [] }: PlannedChecksums, bytes: Uint8Array): number {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const sum = (index: number): bigint => view.getBigUint64(CHECKSUM_BYTES * index, true);
    return open.reduce((damaged, planned, i) => {
      const windowSum = planned.windowBlock === undefined ? undefined : sum(open.length + i);
      return damaged + this.open.returned(planned, sum(i), windowSum);
    }, 0);
  }

  /**
   * A step has returned checksums of whole blocks.
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
    this.open.reset();
    this.isSuspect = false;
    this.wasComparing = false;
    this.isHopeless = false;
  }
}

/** Cuts a list into pieces of `most` entries. */
const partsOf = <Entry>(entries: readonly Entry[], most: number): readonly (readonly Entry[])[] =>
  Array.from({ length: Math.ceil(entries.length / most) }, (_, i) => entries.slice(i * most, (i + 1) * most));

export const NO_BLOCKS: Readonly<Record<BlockKind, readonly NotedBlock[]>> = {
  blocks: [],
  windowBlocks: [],
  snapshots: [],
};
