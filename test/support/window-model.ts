import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';
import type { StepPlan } from '../../src/gateway/replica/scheduler/step-plan.js';
import type { WindowLimits } from '../../src/gateway/replica/scheduler/window-blocks.js';
import { contentOf, damageBlocks } from './block-contents.js';
import { blocksOf, type Content } from './saved-model.js';

/** A position of a slot's sequence, and the windowed block that it lies in. */
interface Place {
  readonly position: number;
  readonly block: number;
}

/** Keys that a slice touches: those of earlier steps that its first row sees, and its own. */
interface Touched {
  readonly slot: number;
  readonly reads: readonly Place[];
  readonly writes: readonly Place[];
}

/**
 * The windowed blocks of an executor that computes nothing and checks everything. What a window hides is spelled out by
 * position, not by block: a key at p0 is hidden from p on when p − p0 ≥ window.
 */
export class WindowModel {
  private readonly kv: Uint32Array;
  /** Block of each index that a slot's next position sees, and the index after the last. */
  private readonly tables = new Map<number, Map<number, number>>();
  private readonly ends = new Map<number, number>();
  private readonly queue: (readonly Touched[])[] = [];
  /** What the step under way has written, and the last one. */
  private readonly written: number[] = [];
  private last: readonly number[] = [];

  constructor(private readonly limits: WindowLimits) {
    this.kv = new Uint32Array(limits.blocks * BLOCK_TOKENS);
  }

  /** The frame arrives. Nothing that a step under way touches may be written for anything else. */
  send(plan: StepPlan): void {
    for (const slot of plan.closes) this.tables.delete(slot);
    for (const { slot, windowStart, windowBlocks } of plan.opens) {
      this.tables.set(slot, new Map());
      this.ends.set(slot, windowStart);
      this.add(slot, windowBlocks);
    }
    for (const { slot, windowBlocks } of plan.appends) this.add(slot, windowBlocks);
    const touched = plan.slices.map(({ slot, position, count }): Touched => {
      const first = Math.max(0, position - this.limits.window + 1);
      return { slot, reads: this.places(slot, first, position), writes: this.places(slot, position, position + count) };
    });
    for (const { slot, writes } of touched) for (const place of writes) this.refuseConflict(slot, place);
    for (const { slot, position, count } of plan.slices) this.hide(slot, position + count);
    this.queue.push(touched);
  }

  /** Runs the oldest step's slice of a slot. @param content of each position of its sequence up to the slice's end */
  run(slot: number, content: readonly number[]): void {
    const slice = this.queue[0]?.find((candidate) => candidate.slot === slot) as Touched;
    const at = ({ block, position }: Place) => block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
    for (const place of slice.reads) {
      if (this.kv[at(place)] === content[place.position]) continue;
      throw new Error(
        `position ${place.position} that slot ${slot} sees is another’s in windowed block ${place.block}`,
      );
    }
    for (const place of slice.writes) {
      this.kv[at(place)] = content[place.position] as number;
      this.written.push(at(place));
    }
  }

  /** The oldest step has run. */
  ran(): void {
    this.queue.shift();
    this.last = this.written.splice(0);
  }

  /** What the last step wrote is rubbish. */
  tear(): void {
    for (const at of this.last) this.kv[at] = 0xdead;
  }

  get contents(): Content {
    return blocksOf(this.kv);
  }

  contentOf(block: number, rows?: number): number {
    return contentOf(this.kv, block, rows);
  }

  /** See {@link damageBlocks}. */
  damage(isHit: (block: number) => boolean): void {
    damageBlocks(this.kv, isHit);
  }

  /** The process ends; its memory stays. */
  kill(): void {
    this.tables.clear();
    this.queue.length = 0;
  }

  crash(): void {
    this.kill();
    this.kv.fill(0xdead);
  }

  /** The blocks whose every position is hidden from here on leave: a sequence never goes back. */
  private hide(slot: number, position: number): void {
    const table = this.tables.get(slot) ?? new Map<number, number>();
    for (const index of table.keys()) {
      const last = (index + 1) * BLOCK_TOKENS - 1;
      if (position - last >= this.limits.window) table.delete(index);
    }
  }

  private add(slot: number, blocks: readonly number[]): void {
    const table = this.tableOf(slot);
    const first = this.ends.get(slot) as number;
    this.ends.set(slot, first + blocks.length);
    for (const [i, block] of blocks.entries()) {
      if (block <= 0 || block >= this.limits.blocks) throw new Error(`windowed block ${block}`);
      if ([...table.values()].includes(block)) throw new Error(`windowed block ${block} twice in slot ${slot}`);
      table.set(first + i, block);
    }
  }

  private tableOf(slot: number): Map<number, number> {
    const table = this.tables.get(slot);
    if (table === undefined) throw new Error(`slot ${slot} is not open`);
    return table;
  }

  private places(slot: number, first: number, end: number): Place[] {
    const table = this.tableOf(slot);
    return Array.from({ length: end - first }, (_, i) => {
      const position = first + i;
      const block = table.get(Math.floor(position / BLOCK_TOKENS));
      if (block === undefined) throw new Error(`position ${position} of slot ${slot} has no windowed block`);
      return { position, block };
    });
  }

  private refuseConflict(slot: number, { block, position }: Place): void {
    const index = Math.floor(position / BLOCK_TOKENS);
    for (const [other, table] of this.tables) {
      for (const [otherIndex, held] of table) {
        if (held !== block || (other === slot && otherIndex === index)) continue;
        throw new Error(`windowed block ${block} of slot ${other} is written by slot ${slot}`);
      }
    }
    for (const { slot: other, reads, writes } of this.queue.flat()) {
      for (const place of [...reads, ...writes]) {
        if (place.block !== block) continue;
        if (other === slot && Math.floor(place.position / BLOCK_TOKENS) === index) continue;
        throw new Error(`windowed block ${block} is written while a step under way of slot ${other} reads it`);
      }
    }
  }
}
