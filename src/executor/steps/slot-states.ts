import type { Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { NO_STATE } from '../kernels/index.js';
import type { Limits } from '../model/limits.js';
import { nullStates, replayRowsOfSlot, type SliceStates, snapshotState } from '../model/slot-layout.js';
import { protocolError } from './protocol-error.js';

/** A state that a slot can go on from. */
interface Standing {
  readonly number: number;
  /** It is the state before this one. */
  readonly position: number;
  /** Id of a snapshot and of one of its contents. */
  readonly snapshot?: Snapshot | undefined;
  readonly content?: number;
}

/** The replay rows of a slot: inputs of consecutive positions, from one on that a state stands before. */
interface ReplayRows {
  readonly position: number;
  /** Rows that a slice may replay: those of all draft tokens, until a slice has said which were accepted. */
  count: number;
}

/** State that a slice continues from, and how many replay rows lie between. */
interface Source {
  readonly state: Standing | undefined;
  readonly replayed: number;
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
 *
 * The state after draft tokens is not written, as they may be wrong. A slice with draft tokens leaves the state before it, and
 * the inputs of its rows: the next one replays those that were accepted. It is never late, so it is not sent again.
 */
export class RecurrentStates {
  /** By slot, what its last slice read and what it wrote. */
  private readonly standing: Standing[][];
  /** By id, from 1. */
  private readonly snapshots: readonly Snapshot[];
  /** By slot. */
  private readonly replays: (ReplayRows | undefined)[];
  private readonly rowsOfSlot: number;
  private step = 0;

  /** @param hasSnapshots whether an epoch before this one has written snapshots that are still there */
  constructor(
    private readonly limits: Limits,
    private readonly hasSnapshots = false,
  ) {
    this.standing = Array.from({ length: limits.maxSequences }, () => []);
    this.replays = new Array<ReplayRows | undefined>(limits.maxSequences).fill(undefined);
    this.rowsOfSlot = replayRowsOfSlot(limits);
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
    this.replays[slot] = undefined;
  }

  /** Pairs of a row of the step and the replay row that keeps its inputs. @param first row of a slice with draft tokens */
  keptRows({ slot, count }: Slice, first: number): readonly number[] {
    return Array.from({ length: 2 * count }, (_, i) => (i % 2 === 0 ? first : slot * this.rowsOfSlot) + (i >> 1));
  }

  /**
   * The states that a slice goes from and to.
   *
   * @param isVoid nothing comes of it: nobody's states
   * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a slice that no state of its slot stands before, and for a snapshot that there
   *         is not, that stands before another position, or that the step reads and writes; for more draft tokens than the model
   *         was loaded for
   */
  of(slice: Slice, isVoid: boolean): SliceStates {
    const { slot, position, count } = slice;
    const from = this.snapshot(slice.fromSnapshot, slot);
    const to = this.snapshot(slice.toSnapshot, slot);
    if (isVoid) return nullStates(this.limits);
    const hasDrafts = isDrafted(slice);
    if (hasDrafts && (count > this.rowsOfSlot || position === 0)) {
      throw protocolError(
        `${count - 1} draft tokens of slot ${slot}, whose states can take back ${Math.max(0, this.rowsOfSlot - 1)}`,
      );
    }
    const { state: source, replayed } = this.source(slice, from);
    if (source?.snapshot !== undefined) {
      if (source.snapshot.writtenIn === this.step) throw this.clash(slot);
      source.snapshot.readIn = this.step;
    }
    const end = hasDrafts ? position : position + count;
    if (to !== undefined) {
      if (to.writtenIn === this.step || to.readIn === this.step) throw this.clash(slot);
      Object.assign(to, { position: end, content: to.content + 1, writtenIn: this.step });
    }
    const target: Standing =
      to === undefined
        ? { number: source?.number === 2 * slot ? 2 * slot + 1 : 2 * slot, position: end }
        : { number: to.number, position: end, snapshot: to, content: to.content };
    const states = {
      ...{ source: source?.number ?? NO_STATE, target: target.number, isBefore: hasDrafts },
      ...{ replayed, replayRow: slot * this.rowsOfSlot },
    };
    if (!hasDrafts) {
      const replay = this.replays[slot];
      if (replay !== undefined && replayed > 0) replay.count = replayed;
      this.standing[slot] = source === undefined ? [target] : [source, target];
      return states;
    }
    this.replays[slot] = { position, count };
    // The state before it is the slot's own already. A snapshot may be another's before the next slice comes.
    const isOwn = replayed === 0 && source?.snapshot === undefined && to === undefined;
    this.standing[slot] = [isOwn ? (source as Standing) : target];
    return isOwn ? { ...states, target: NO_STATE } : states;
  }

  private source({ slot, position, fromSnapshot: id }: Slice, from: Snapshot | undefined): Source {
    if (from !== undefined) {
      const { number, content } = from;
      // One that this epoch has not written may be that of an executor before, which the gateway knows.
      const written = from.position ?? (this.hasSnapshots ? position : undefined);
      if (written !== position || position === 0) {
        throw protocolError(
          `positions from ${position} on of slot ${slot}, from snapshot ${id}, which belongs to ${written ?? 'none'}`,
        );
      }
      return { state: { number, position, snapshot: from, content }, replayed: 0 };
    }
    if (position === 0) return { state: undefined, replayed: 0 };
    // A snapshot may be another slot's work by now.
    const standing = (this.standing[slot] as Standing[]).filter(
      ({ snapshot, content }) => snapshot === undefined || snapshot.content === content,
    );
    const found = standing.find((state) => state.position === position);
    if (found !== undefined) return { state: found, replayed: 0 };
    const replay = this.replays[slot];
    const replayed = replay === undefined ? 0 : position - replay.position;
    const before = standing.find((state) => state.position === replay?.position);
    if (replay !== undefined && before !== undefined && replayed > 0 && replayed <= replay.count) {
      return { state: before, replayed };
    }
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

/** True if a slice has draft tokens behind the token that was sampled last. */
export const isDrafted = ({ tokenIds, count }: Pick<Slice, 'tokenIds' | 'count'>): boolean =>
  tokenIds !== undefined && count > 1;
