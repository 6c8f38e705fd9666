import type { OpenSums } from '../../request/prefix.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS, type BlockManager } from './block-manager.js';
import type { NotedBlock } from './block-pool.js';
import type { PlannedSlice } from './step-plan.js';
import type { WindowBlocks } from './window-blocks.js';

/** The most blocks of a step: with more sequences, each has its turn. */
const MOST_BLOCKS = 64;
/** Fewer sequences leave so little to compute again that a step hardly takes longer for it. */
const LEAST_SLICES = 4;
/** In shorter steps checksums would take a larger part than they save. */
const LEAST_STEP_US = 5_000;

/** A KV block and the one of layers with a window beside it, of which a step returns the checksums of the first rows. */
export interface OpenBlock {
  readonly block: number;
  /** Undefined where there are no such layers. */
  readonly windowBlock: number | undefined;
  readonly rows: number;
}

/** One that a slice of the step has written to, up to position `end`. */
interface WrittenBlock extends OpenBlock {
  readonly sequence: Sequence;
  readonly end: number;
}

/** One whose checksums are compared to those that it had. */
interface ComparedBlock extends OpenBlock {
  readonly noted: NotedBlock;
  readonly notedWindow: NotedBlock | undefined;
}

export type PlannedOpenBlock = WrittenBlock | ComparedBlock;

/** Checksums that a sequence had when its executor was lost, its tokens in the block, and the prefix before it. */
interface LostBlock extends OpenSums {
  readonly parent: number;
  readonly ids: Uint32Array;
}

/**
 * Checksums of the blocks that sequences still write to, up to the position that was written last: with them a sequence continues after a
 * fault where it was, and not at the end of its last full block. They come with the step that has written there.
 */
export class OpenBlocks {
  /** The executor computes them. */
  isWanted = false;
  private stepUs = Number.POSITIVE_INFINITY;
  /** Blocks of sequences that were running when their executor was lost. */
  private lost: LostBlock[] = [];
  /** Those of them that can be found. */
  private found: ComparedBlock[] = [];

  constructor(
    private readonly blocks: BlockManager,
    private readonly windows: WindowBlocks,
  ) {}

  /** A step took so long; two results may come at once, so that only several say how long steps take. */
  observe(stepUs: number): void {
    this.stepUs = Number.isFinite(this.stepUs) ? this.stepUs + (stepUs - this.stepUs) / 4 : stepUs;
  }

  /** Those that a step's slices write to. */
  of(slices: readonly PlannedSlice[], stepId: number): readonly WrittenBlock[] {
    if (!this.isWanted || slices.length < LEAST_SLICES || this.stepUs < LEAST_STEP_US) return [];
    const turns = Math.ceil(slices.length / MOST_BLOCKS);
    return slices.filter((_, i) => i % turns === stepId % turns).map((slice) => this.writtenBy(slice));
  }

  private writtenBy({ sequence, position, count, tokens }: PlannedSlice): WrittenBlock {
    // Which draft tokens are right is not known yet.
    const end = tokens === undefined ? position + count : position + 1;
    const index = indexOf(end);
    const { blocks, windowBlocks, windowStart } = sequence;
    const windowBlock = this.windows.hasLayers ? windowBlocks[index - windowStart] : undefined;
    return { block: blocks[index] as number, windowBlock, rows: end - index * BLOCK_TOKENS, sequence, end };
  }

  /**
   * A step has returned a block's checksums, and what the step has computed is registered.
   *
   * @returns number of blocks that a fault has damaged
   */
  returned(planned: PlannedOpenBlock, sum: bigint, windowSum: bigint | undefined): number {
    if ('noted' in planned) {
      const { noted, notedWindow } = planned;
      const windowIsIntact = notedWindow === undefined || this.windows.pool.verify(notedWindow, windowSum as bigint);
      return Number(!this.blocks.verify(noted, sum)) + Number(!windowIsIntact);
    }
    const { block, windowBlock, rows, sequence, end } = planned;
    const index = indexOf(end);
    // It has ended or waits again, or its mask came too late.
    if (sequence.blocks[index] !== block || sequence.computed < end) return 0;
    sequence.openSums = { block, windowBlock, end, sum, windowSum };
    if (rows < BLOCK_TOKENS) return 0;
    this.blocks.addMissing(block, sum);
    if (windowBlock !== undefined) this.windows.pool.addMissing(windowBlock, windowSum as bigint);
    return 0;
  }

  /** The executor of a sequence that has its blocks is lost. */
  lose(sequence: Sequence): void {
    const { openSums, registeredBlocks, registeredPrefix: parent, blocks } = sequence;
    const start = registeredBlocks * BLOCK_TOKENS;
    sequence.summedTokens = 0;
    if (openSums === undefined || openSums.block !== blocks[registeredBlocks] || openSums.end <= start) return;
    sequence.summedTokens = openSums.end;
    const ids = Uint32Array.from({ length: openSums.end - start }, (_, i) => sequence.token(start + i));
    this.lost.push({ ...openSums, parent, ids });
  }

  /** The next executor has the same memory, and nothing has written to it but those whose blocks they are. */
  trust(): void {
    this.lost = [];
  }

  /** The same, but a fault may have written anywhere. @returns the blocks to compare */
  suspect(): readonly ComparedBlock[] {
    const isFound = ({ noted, notedWindow }: ComparedBlock): boolean =>
      this.blocks.isPart(noted) && (notedWindow === undefined || this.windows.pool.isPart(notedWindow));
    this.found = [...this.found.filter(isFound), ...this.lost.flatMap((lost) => this.note(lost))];
    this.lost = [];
    return this.found;
  }

  private note({ block, windowBlock, sum, windowSum, parent, ids }: LostBlock): readonly ComparedBlock[] {
    const part = this.blocks.registerPart(block, parent, ids, sum);
    if (part === undefined) return [];
    const rows = ids.length;
    if (windowBlock === undefined) return [{ block, windowBlock, rows, noted: part.noted, notedWindow: undefined }];
    const notedWindow = this.windows.pool.notePart(windowBlock, part.prefix, windowSum as bigint);
    if (notedWindow !== undefined) return [{ block, windowBlock, rows, noted: part.noted, notedWindow }];
    this.blocks.forget(block);
    return [];
  }

  /** The contents are forgotten. */
  reset(): void {
    this.lost = [];
    this.found = [];
  }
}

/** Which of a sequence's blocks has the position before this one. */
const indexOf = (end: number): number => Math.ceil(end / BLOCK_TOKENS) - 1;
