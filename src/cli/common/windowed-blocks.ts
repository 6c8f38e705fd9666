import { KV_BLOCK_TOKENS } from '../../executor/kernels/index.js';
import { blocksFor } from '../../executor/model/slot-layout.js';
import { SlotAppend } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { firstSeenBlock } from '../../shared/kv-window.js';

/** Limits of layers with a sliding window: positions that a row attends to, and blocks of their cache. */
interface WindowLimits {
  readonly window: number;
  readonly blocks: number;
}

/** Blocks of a slot's table, of which those have left that no later position attends to. */
interface WindowTable {
  start: number;
  readonly blocks: number[];
}

/** Assigns KV blocks of windowed layers to the slots of an executor that is driven without a gateway. */
export class WindowedBlocks {
  private readonly tables = new Map<number, WindowTable>();
  /** The block that left last is taken first, so that a block that is still needed is overwritten. */
  private readonly free: number[];

  /** @param limits undefined: the model has no windowed layers */
  constructor(private readonly limits: WindowLimits | undefined) {
    this.free = Array.from({ length: (limits?.blocks ?? 1) - 1 }, (_, i) => i + 1);
  }

  open(slot: number): void {
    this.tables.set(slot, { start: 0, blocks: [] });
  }

  /** Frees the slot's blocks. */
  close(slot: number): void {
    this.free.push(...(this.tables.get(slot)?.blocks ?? []));
    this.tables.delete(slot);
  }

  /**
   * Appends that a step needs for a slice of `count` rows from `position` on; blocks that have left are free again.
   *
   * @throws RangeError when no block is left
   */
  appends(slot: number, position: number, count: number): SlotAppend[] {
    const table = this.tables.get(slot);
    if (this.limits === undefined || table === undefined) return [];
    const first = firstSeenBlock(position, this.limits.window, KV_BLOCK_TOKENS);
    while (table.start < first && table.blocks.length > 0) {
      this.free.push(table.blocks.shift() as number);
      table.start += 1;
    }
    const added: number[] = [];
    while (table.start + table.blocks.length < blocksFor(position + count)) {
      const block = this.free.pop();
      if (block === undefined) throw new RangeError(`no windowed block is left for slot ${slot}`);
      table.blocks.push(block);
      added.push(block);
    }
    const windowBlockIds = Buffer.from(Uint32Array.from(added).buffer);
    return added.length === 0 ? [] : [{ ...SlotAppend.create(), slot, windowBlockIds }];
  }
}
