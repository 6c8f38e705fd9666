import type { HeldSnapshot } from '../../request/prefix.js';
import type { Sequence } from '../../request/sequence.js';
import { BLOCK_TOKENS } from './block-manager.js';
import { BlockPool } from './block-pool.js';

/** Thresholds from which on a snapshot, and the additional step for it, are worth their cost. All in tokens. */
export interface SnapshotRule {
  /** That a snapshot must be ahead of the one before it: fewer are computed anew sooner than a step more is run. */
  readonly least: number;
  /** After which a long prompt has another. */
  readonly every: number;
  /** Tokens of a prompt behind its last snapshot: in a chat's next turn the beginning of the answer may have changed. */
  readonly ending: number;
}

const RULE: SnapshotRule = { least: 128, every: 1024, ending: 8 };

/** Share of all snapshots that one prompt may take on its way, and share that generating sequences may hold. */
const PROMPT_SHARE = 1 / 4;
const GENERATING_SHARE = 1 / 2;

/** The snapshots that a slice goes from and to. */
export interface SnapshotsOfSlice {
  readonly fromSnapshot?: number | undefined;
  readonly toSnapshot?: number | undefined;
}

/**
 * The snapshots of recurrent states: which are whose, the end of which prefix each stands at, and where they are taken. A
 * sequence can go on behind a prefix whose blocks are there if a snapshot is there, too.
 *
 * A snapshot is a place that a slice writes its states to, so taking one copies nothing. A sequence holds the one that it began
 * from and those of its prompt until the slice behind them has returned, which may have to be sent again; and one that it writes
 * anew at the end of each block that it generates. The others are free: they are found until they are taken for something else,
 * the longest unused first.
 */
export class StateSnapshots {
  readonly pool: BlockPool;
  private readonly ofPrompt: number;
  private readonly mostRolling: number;
  private rolling = 0;

  /** @param count of the executor; 0: none are taken */
  constructor(
    readonly count: number,
    private readonly rule: SnapshotRule = RULE,
  ) {
    // Number 0 is nobody's, as block 0 is.
    this.pool = new BlockPool(count + 1);
    this.ofPrompt = Math.max(1, Math.floor(count * PROMPT_SHARE));
    this.mostRolling = Math.floor(count * GENERATING_SHARE);
  }

  /** Snapshots that can be found. */
  get keptCount(): number {
    return this.pool.cachedCount;
  }

  /** Snapshots that no sequence holds. */
  get freeCount(): number {
    return this.pool.freeCount;
  }

  /** Number of prefixes that continue each other, up to the longest that has a snapshot. */
  find(prefixes: readonly number[]): number {
    return 1 + prefixes.findLastIndex((prefix) => this.pool.noted(prefix) !== undefined);
  }

  /** A sequence, which holds none, begins behind a prefix that {@link find} found. */
  begin(sequence: Sequence, prefix: number, position: number): void {
    const id = this.pool.noted(prefix) as number;
    this.pool.share(id);
    sequence.snapshots = [{ id, kind: 'began', position }];
    sequence.lastSnapshot = position;
  }

  /**
   * Somebody would go on behind what a running sequence is going to compute up to a position.
   *
   * @param start where he could go on without that
   * @returns whether it is worth waiting for: a snapshot comes
   */
  ask(producer: Sequence, position: number, start: number): boolean {
    if (this.count === 0 || position - start < this.rule.least) return false;
    if (producer.scheduled >= position) {
      return producer.snapshots.some((held) => held.position > start && held.position <= position);
    }
    this.branch(producer, position);
    return true;
  }

  /** Prompts part at this position, or are seen to have parted there: the one that computes it leaves a snapshot. */
  branch(sequence: Sequence, position: number): void {
    if (!sequence.branches.includes(position)) sequence.branches = [...sequence.branches, position];
  }

  /** True if others with the same prompt can go on behind it. */
  keepsPrompt({ options }: Sequence): boolean {
    return this.count > 0 && this.endOf(options.promptIds.length) >= this.rule.least;
  }

  /** End of a slice from the sequence's next position on: as given, or sooner, where a snapshot is worth the cut. */
  cut(sequence: Sequence, end: number): number {
    return this.placeIn(sequence, end) ?? end;
  }

  /** The snapshots of the sequence's next slice, which {@link cut} has cut. */
  take(sequence: Sequence, end: number): SnapshotsOfSlice {
    const from = sequence.snapshots.find(({ kind, position }) => kind === 'began' && position === sequence.scheduled);
    const isPlace = this.placeIn(sequence, end) === end;
    const to = isPlace ? (isGenerated(sequence, end) ? this.roll(sequence, end) : this.add(sequence, end)) : undefined;
    return { fromSnapshot: from?.id, toSnapshot: to };
  }

  /** The snapshot of the sequence's next slice, which has draft tokens: it writes the states before it, if none is there. */
  takeBefore(sequence: Sequence): SnapshotsOfSlice {
    const { scheduled: position, snapshots } = sequence;
    const isPlace =
      this.count > 0 && position % BLOCK_TOKENS === 0 && !snapshots.some((held) => held.position === position);
    return { toSnapshot: isPlace ? this.roll(sequence, position) : undefined };
  }

  /** The most draft tokens of the sequence's next slice: the next one is to begin where a snapshot may be, not behind it. */
  mostDraftTokens({ scheduled }: Sequence): number {
    return this.count === 0 ? Number.POSITIVE_INFINITY : BLOCK_TOKENS - 1 - (scheduled % BLOCK_TOKENS);
  }

  /**
   * A slice has returned and was not late: what it went on from is not needed again, and what it wrote can be found.
   *
   * @param position of the slice
   * @param to       the snapshot that it wrote, if any
   * @param prefix   up to where the states stand that it wrote, as the block manager has it; undefined: it is not known
   */
  returned(sequence: Sequence, position: number, to: number | undefined, prefix: number | undefined): void {
    if (sequence.snapshots.length === 0) return;
    if (to !== undefined && prefix !== undefined) this.pool.note(to, prefix);
    this.keep(sequence, (held) => held.kind === 'rolling' || held.position > position);
  }

  /** Takes all that a sequence holds. */
  release(sequence: Sequence): void {
    this.keep(sequence, () => false);
  }

  /** They belong to a new executor, which has written none. */
  reset(): void {
    this.pool.reset();
    this.rolling = 0;
  }

  /** Throws when a snapshot has not exactly one fate. */
  check(holders: readonly Sequence[]): void {
    const held = holders.flatMap(({ snapshots }) => snapshots);
    this.pool.check([held.map(({ id }) => id)]);
    const rolling = held.filter(({ kind }) => kind === 'rolling').length;
    if (rolling !== this.rolling) throw new Error(`${rolling} snapshots are rolling, counted ${this.rolling}`);
  }

  /** The first position at which a slice that goes up to `end` is to leave a snapshot. */
  private placeIn(sequence: Sequence, end: number): number | undefined {
    if (this.count === 0) return undefined;
    if (isGenerated(sequence, end)) return end % BLOCK_TOKENS === 0 ? end : undefined;
    const { scheduled: start, lastSnapshot: last, branches, options } = sequence;
    const { least, every } = this.rule;
    const promptEnd = this.endOf(options.promptIds.length);
    const places = [...branches, promptEnd].filter((at) => at > start && at <= end && at - last >= least);
    if (places.length > 0) return Math.min(...places);
    const whole = end - (end % BLOCK_TOKENS);
    if (whole <= start || whole - last < Math.max(every, options.promptIds.length / this.ofPrompt)) return undefined;
    // The prompt's end, which is worth more, would be too near to it.
    return promptEnd > whole && promptEnd - whole < least ? undefined : whole;
  }

  private endOf(promptTokens: number): number {
    return BLOCK_TOKENS * Math.floor(Math.max(0, promptTokens - this.rule.ending) / BLOCK_TOKENS);
  }

  /** @returns undefined where all are held */
  private add(sequence: Sequence, position: number, kind: HeldSnapshot['kind'] = 'taken'): number | undefined {
    if (!this.pool.canAllocate(1)) return undefined;
    const [id] = this.pool.allocate(1) as [number];
    sequence.snapshots = [...sequence.snapshots, { id, kind, position }];
    if (kind === 'rolling') this.rolling += 1;
    else sequence.lastSnapshot = position;
    return id;
  }

  /** @returns undefined where generating sequences hold as many as they may */
  private roll(sequence: Sequence, position: number): number | undefined {
    const own = sequence.snapshots.find(({ kind }) => kind === 'rolling');
    if (own === undefined || this.pool.isShared(own.id)) {
      this.keep(sequence, (held) => held !== own);
      return this.rolling < this.mostRolling ? this.add(sequence, position, 'rolling') : undefined;
    }
    // It was read a block ago: so many steps are never under way.
    this.pool.forget(own.id);
    sequence.snapshots = sequence.snapshots.map((held) => (held === own ? { ...own, position } : held));
    return own.id;
  }

  /** Gives up all that a sequence holds but those. */
  private keep(sequence: Sequence, isKept: (held: HeldSnapshot) => boolean): void {
    const given = sequence.snapshots.filter((held) => !isKept(held));
    if (given.length === 0) return;
    sequence.snapshots = sequence.snapshots.filter(isKept);
    for (const { id, kind } of given) {
      if (kind === 'rolling') this.rolling -= 1;
      if (this.pool.isNoted(id)) this.pool.release(id);
      else this.pool.discard(id);
    }
  }
}

/** True if a slice from the sequence's next position on computes a token that was generated, and no other. */
function isGenerated({ scheduled, options }: Sequence, end: number): boolean {
  return scheduled >= options.promptIds.length && end === scheduled + 1;
}
