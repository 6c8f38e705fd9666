import type { Sequence } from '../../request/sequence.js';

/** Share of a step that sequences of one priority have. */
interface Level {
  /** The most rows of one peer. */
  readonly share: number;
  readonly taken: Map<string, number>;
}

/**
 * The rows of one step. Sequences of one priority share what is left when their turn comes, each peer equally: a peer's
 * long prompts do not hold up another's short one. Pure.
 */
export class StepRows {
  private readonly levels = new Map<number, Level>();
  private rowsLeft: number;

  /**
   * @param budget    rows of the step
   * @param demandsAt rows that each peer wants for its sequences of one priority; none: nobody has to share
   */
  constructor(
    budget: number,
    private readonly demandsAt: (priority: number) => Iterable<number>,
  ) {
    this.rowsLeft = budget;
  }

  get left(): number {
    return this.rowsLeft;
  }

  /** The most rows that a sequence may take. */
  leftFor(sequence: Sequence): number {
    const { share, taken } = this.levelOf(sequence);
    return Math.max(0, Math.min(this.rowsLeft, share - (taken.get(sequence.options.peer ?? '') ?? 0)));
  }

  take(sequence: Sequence, rows: number): void {
    const { taken } = this.levelOf(sequence);
    const { peer = '' } = sequence.options;
    taken.set(peer, (taken.get(peer) ?? 0) + rows);
    this.rowsLeft -= rows;
  }

  private levelOf({ options }: Sequence): Level {
    let level = this.levels.get(options.priority);
    if (level === undefined) {
      level = { share: fairShare(this.rowsLeft, this.demandsAt(options.priority)), taken: new Map() };
      this.levels.set(options.priority, level);
    }
    return level;
  }
}

/**
 * The most of a budget that each may have, such that those who want less get all they want and the others equally much
 * (max-min fairness).
 *
 * @returns at least 1; Infinity when all that is wanted is there
 */
export function fairShare(budget: number, demands: Iterable<number>): number {
  const sorted = [...demands].sort((a, b) => a - b);
  let left = budget;
  for (const [i, demand] of sorted.entries()) {
    const share = Math.floor(left / (sorted.length - i));
    if (demand > share) return Math.max(1, share);
    left -= demand;
  }
  return Number.POSITIVE_INFINITY;
}

/**
 * Rows that each peer could use of a step, for its sequences of one priority.
 *
 * @param running those that could go on
 * @param waiting of each peer the one that could start
 */
export function demandsOf(
  priority: number,
  running: Iterable<Sequence>,
  waiting: Iterable<{ readonly sequence: Sequence }>,
): Iterable<number> {
  const demands = new Map<string, number>();
  const count = ({ options: { priority: own, peer = '' } }: Sequence, rows: number): void => {
    if (own === priority) demands.set(peer, (demands.get(peer) ?? 0) + rows);
  };
  for (const sequence of running) count(sequence, sequence.behind);
  for (const { sequence } of waiting) count(sequence, sequence.known);
  return demands.values();
}
