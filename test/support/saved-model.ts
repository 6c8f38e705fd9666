import { type BlockKind, KINDS, type PlannedChecksums } from '../../src/gateway/replica/scheduler/block-checksums.js';
import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';

/** Bytes that a block of each kind takes in the modelled memory. */
export const SAVED_BYTES: Readonly<Record<BlockKind, number>> = { blocks: 4, windowBlocks: 4, snapshots: 4 };

/** Reads and writes what a block of one kind holds. */
export interface Content {
  get(block: number): unknown;
  set(block: number, content: unknown): void;
}

/** The blocks of a KV cache. */
export const blocksOf = (kv: Uint32Array): Content => ({
  get: (block) => kv.slice(block * BLOCK_TOKENS, (block + 1) * BLOCK_TOKENS),
  set: (block, content) => kv.set(content as Uint32Array, block * BLOCK_TOKENS),
});

/** Memory of the host that executors copy blocks to and from. */
export class SavedModel {
  private readonly memory = new Map<number, unknown>();

  /** Does what a step with these checksums does before they are computed. */
  restore({ restoreAt, ...planned }: PlannedChecksums, contents: Readonly<Record<BlockKind, Content>>): void {
    if (restoreAt === undefined) return;
    this.each(restoreAt, planned, (kind, block, at) => {
      if (!this.memory.has(at)) throw new Error(`nothing was copied to ${at}`);
      contents[kind].set(block, this.memory.get(at));
    });
  }

  /** And after that. */
  save({ saveAt, ...planned }: PlannedChecksums, contents: Readonly<Record<BlockKind, Content>>): void {
    if (saveAt === undefined) return;
    this.each(saveAt, planned, (kind, block, at) => this.memory.set(at, contents[kind].get(block)));
  }

  /** Exchanges what lies in two places. */
  damage(): void {
    const [first, second] = [this.memory.get(0), this.memory.get(SAVED_BYTES.blocks)];
    this.memory.set(0, second ?? first);
  }

  private each(
    first: number,
    planned: PlannedChecksums,
    call: (kind: BlockKind, block: number, at: number) => void,
  ): void {
    let at = first;
    for (const kind of KINDS) {
      for (const { block } of planned[kind]) {
        call(kind, block, at);
        at += SAVED_BYTES[kind];
      }
    }
  }
}
