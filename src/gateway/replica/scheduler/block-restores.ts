import type { Sequence } from '../../request/sequence.js';
import { type BlockKind, eachChecksum, KINDS, NO_BLOCKS, type PlannedChecksums } from './block-checksums.js';
import type { BlockPool, NotedBlock } from './block-pool.js';

/** Blocks of one kind whose contents lie one behind the other in the host's memory. */
export interface RestoredRun {
  readonly kind: BlockKind;
  /** Offset of the first, in bytes. */
  readonly at: number;
  readonly blocks: readonly NotedBlock[];
}

/** A run on its way back. */
interface PendingRun extends RestoredRun {
  /** Index of the first block that no step has brought yet. */
  next: number;
  /** Steps under way that bring some of it. */
  steps: number;
  /** A sequence waits for some of it. */
  isAwaited: boolean;
}

/** A block whose content is not there yet. */
interface PendingBlock {
  readonly run: PendingRun;
  readonly noted: NotedBlock;
}

/**
 * Copies of contents from the host's memory to blocks that are findable already. Each takes steps of its own: at once where a sequence
 * waits for it, else while there is nothing to compute. No sequence may take a block before its content is there and has the checksum
 * that it had.
 */
export class BlockRestores {
  private runs: PendingRun[] = [];
  private readonly underWay = new Map<PlannedChecksums, PendingRun>();
  /** By block whose content is not there yet. */
  private readonly pending: Readonly<Record<BlockKind, Map<number, PendingBlock>>> = {
    blocks: new Map(),
    windowBlocks: new Map(),
    snapshots: new Map(),
  };
  private awaited = new WeakMap<Sequence, readonly PendingRun[]>();
  private bytes: Readonly<Record<BlockKind, number>> = { blocks: 0, windowBlocks: 0, snapshots: 0 };

  constructor(private readonly pools: Readonly<Record<BlockKind, BlockPool>>) {}

  /** True while there is something to bring back. */
  get isUnderWay(): boolean {
    return this.runs.length + this.underWay.size > 0;
  }

  /** True if a sequence waits for what no step has brought yet. */
  get isAwaited(): boolean {
    return this.runs[0]?.isAwaited ?? false;
  }

  /**
   * Begins, where nothing is under way.
   *
   * @param bytes of a block of each kind
   * @param runs those first that were used last
   */
  begin(bytes: Readonly<Record<BlockKind, number>>, runs: readonly RestoredRun[]): void {
    this.bytes = bytes;
    this.runs = runs.map((run) => ({ ...run, next: 0, steps: 0, isAwaited: false }));
    for (const run of this.runs)
      for (const noted of run.blocks) this.pending[run.kind].set(noted.block, { run, noted });
  }

  /**
   * True if a sequence would take blocks whose content is not there yet: they are the next that are brought.
   *
   * @param found the blocks that it would take
   */
  holdsUp(sequence: Sequence, found: () => Readonly<Record<BlockKind, readonly number[]>>): boolean {
    if (!this.isUnderWay) return false;
    // Finding them takes a while for long prompts, and steps return meanwhile.
    if (this.awaited.get(sequence)?.some((run) => this.isPending(run))) return true;
    const blocks = found();
    const lacking = new Set<PendingRun>();
    for (const kind of KINDS) {
      for (const block of blocks[kind]) {
        const pending = this.pending[kind].get(block);
        if (pending !== undefined && this.pools[kind].isRestored(pending.noted)) lacking.add(pending.run);
      }
    }
    if (lacking.size === 0) return false;
    this.awaited.set(sequence, [...lacking]);
    for (const run of lacking) run.isAwaited = true;
    const later = this.runs.filter((run) => !run.isAwaited);
    this.runs = [...this.runs.filter((run) => run.isAwaited), ...later];
    return true;
  }

  /** Those that the next step brings back; undefined: all are under way. */
  next(): PlannedChecksums | undefined {
    for (let run = this.runs[0]; run !== undefined; run = this.runs[0]) {
      const { kind, at, blocks } = run;
      // Blocks that were taken for something else meanwhile are left out.
      const isWanted = (noted: NotedBlock) => this.pools[kind].isRestored(noted);
      const from = blocks.findIndex((noted, i) => i >= (run as PendingRun).next && isWanted(noted));
      const end = from < 0 ? -1 : blocks.findIndex((noted, i) => i > from && !isWanted(noted));
      run.next = end < 0 ? blocks.length : end;
      if (run.next === blocks.length) this.runs.shift();
      if (from < 0) {
        this.settle(run);
        continue;
      }
      const planned = {
        ...{ ...NO_BLOCKS, [kind]: blocks.slice(from, run.next) },
        ...{ isComparison: true, restoreAt: at + from * this.bytes[kind] },
      };
      run.steps += 1;
      this.underWay.set(planned, run);
      return planned;
    }
    return undefined;
  }

  /**
   * A step has brought blocks back.
   *
   * @param checksums of each
   * @returns number of blocks whose content is not what it was; they are not findable any more
   */
  returned(planned: PlannedChecksums, checksums: Uint8Array): number {
    const run = this.underWay.get(planned);
    if (run === undefined) return 0;
    this.underWay.delete(planned);
    run.steps -= 1;
    let damaged = 0;
    eachChecksum(planned, checksums, (kind, block, checksum) => {
      if (this.pools[kind].isRestored(block) && !this.pools[kind].verify(block, checksum)) damaged += 1;
    });
    this.settle(run);
    return damaged;
  }

  /** The executor is lost: what it has not brought back cannot be found. */
  abandon(): void {
    for (const kind of KINDS) {
      for (const { noted } of this.pending[kind].values()) {
        if (this.pools[kind].isRestored(noted)) this.pools[kind].forget(noted.block);
      }
      this.pending[kind].clear();
    }
    this.runs = [];
    this.underWay.clear();
    this.awaited = new WeakMap();
  }

  /** A run is over once all its steps have returned. */
  private settle(run: PendingRun): void {
    if (this.isPending(run)) return;
    for (const { block } of run.blocks) {
      if (this.pending[run.kind].get(block)?.run === run) this.pending[run.kind].delete(block);
    }
  }

  private isPending({ next, steps, blocks }: PendingRun): boolean {
    return steps > 0 || next < blocks.length;
  }
}
