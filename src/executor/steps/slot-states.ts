import type { Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { NO_STATE } from '../kernels/index.js';
import type { Limits } from '../model/limits.js';
import { nullStates, snapshotState } from '../model/slot-layout.js';
import { protocolError } from './protocol-error.js';

/** Numbers of states on the device. No source: a slice begins its sequence. */
export interface StatesOfSlice {
  readonly source: number;
  readonly target: number;
}

/** A state that a slot can go on from. */
interface Standing {
  readonly number: number;
  /** It is the state before this one. */
  readonly position: number;
  /** Id of a snapshot and of one of its contents. */
  readonly snapshot?: Snapshot | undefined;
  readonly content?: number;
}

interface Snapshot {
  readonly number: number;
  /** The state before this position; undefined: nobody wrote it. */
  position: number | undefined;
  /** Number of times that it was written. */
  content: number;
  /** The last steps that read and that wrote it. */
  readIn: number;
  writtenIn: number;
}

/**
 * Which recurrent states are where: of each slot the last two, and the snapshots of an epoch. A slice reads one and writes
 * another, so that it can be sent again; either may be a snapshot, which is then never copied.
 */
export class RecurrentStates {
  /** By slot, what its last slice read and what it wrote. */
  private readonly standing: Standing[][];
  /** By id, from 1. */
  private readonly snapshots: readonly Snapshot[];
  private step = 0;

  constructor(private readonly limits: Limits) {
    this.standing = Array.from({ length: limits.maxSequences }, () => []);
    this.snapshots = Array.from({ length: limits.stateSnapshots ?? 0 }, (_, i) => ({
      ...{ number: snapshotState(limits, i + 1), position: undefined, content: 0, readIn: 0, writtenIn: 0 },
    }));
  }

  /** The slices that follow are of another step. */
  beginStep(): void {
    this.step += 1;
  }

  /** A slot is another sequence's from now on. */
  forget(slot: number): void {
    this.standing[slot] = [];
  }

  /**
   * The states that a slice goes from and to.
   *
   * @param isVoid nothing comes of it: nobody's states
   * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a slice that no state of its slot stands before, and for a snapshot that there
   *         is not, that stands before another position, or that the step reads and writes
   */
  of(slice: Slice, isVoid: boolean): StatesOfSlice {
    const { slot, position, count } = slice;
    const from = this.snapshot(slice.fromSnapshot, slot);
    const to = this.snapshot(slice.toSnapshot, slot);
    if (isVoid) return nullStates(this.limits);
    const source = this.source(slice, from);
    if (source?.snapshot !== undefined) {
      if (source.snapshot.writtenIn === this.step) throw this.clash(slot);
      source.snapshot.readIn = this.step;
    }
    const end = position + count;
    if (to !== undefined) {
      if (to.writtenIn === this.step || to.readIn === this.step) throw this.clash(slot);
      Object.assign(to, { position: end, content: to.content + 1, writtenIn: this.step });
    }
    const target: Standing =
      to === undefined
        ? { number: source?.number === 2 * slot ? 2 * slot + 1 : 2 * slot, position: end }
        : { number: to.number, position: end, snapshot: to, content: to.content };
    this.standing[slot] = source === undefined ? [target] : [source, target];
    return { source: source?.number ?? NO_STATE, target: target.number };
  }

  private source({ slot, position, fromSnapshot: id }: Slice, from: Snapshot | undefined): Standing | undefined {
    if (from !== undefined) {
      const { number, content } = from;
      if (from.position !== position || position === 0) {
        throw protocolError(
          `positions from ${position} on of slot ${slot}, from snapshot ${id}, which belongs to ${from.position ?? 'none'}`,
        );
      }
      return { number, position, snapshot: from, content };
    }
    if (position === 0) return undefined;
    // A snapshot may be another slot's work by now.
    const standing = (this.standing[slot] as Standing[]).filter(
      ({ snapshot, content }) => snapshot === undefined || snapshot.content === content,
    );
    const found = standing.find((state) => state.position === position);
    if (found !== undefined) return found;
    const known = standing.map((state) => state.position).join(' and ');
    throw protocolError(`positions from ${position} on of slot ${slot}, whose states belong to ${known || 'none'}`);
  }

  private snapshot(id: number | undefined, slot: number): Snapshot | undefined {
    if (id === undefined) return undefined;
    const snapshot = this.snapshots[id - 1];
    if (snapshot === undefined) throw protocolError(`snapshot ${id} of ${this.snapshots.length} in slot ${slot}`);
    return snapshot;
  }

  private clash(slot: number): Error {
    return protocolError(`a snapshot in slot ${slot} that a slice of this step writes and another names`);
  }
}
