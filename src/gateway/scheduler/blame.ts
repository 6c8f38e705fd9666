import type { Sequence } from './sequence.js';

/** A sequence that was in a step which did not come back, and the position that step would have reached. */
export interface Suspicion {
  readonly sequence: Sequence;
  readonly end: number;
}

/**
 * Finds the request that makes the executor fault.
 *
 * A fault is blamed on the sequences of the steps that did not come back, and on nobody else; getting past the position
 * where it happened clears a sequence. When sequences fault twice without that, they are suspects, and they run in
 * halves, alone: a half that gets through is cleared, a half that faults is halved again. The one that faults alone is
 * quarantined. Of s > 1 suspects that takes at most ⌈log2 s⌉ + 2 faults. Pure.
 */
export class Blame {
  private readonly blamed = new Map<Sequence, number>();
  /** The suspects that run alone now; undefined while nobody has to. */
  private group: Set<Sequence> | undefined;

  /** Whether some sequences have to wait until suspicion is settled. */
  get isSearching(): boolean {
    return this.group !== undefined;
  }

  /** Whether a sequence may be in the next step. */
  mayRun(sequence: Sequence): boolean {
    return this.group === undefined || this.group.has(sequence);
  }

  /**
   * The executor faulted.
   *
   * @param step the sequences of the steps that did not come back, in order; while {@link isSearching} that must be one
   *             step at most. Which of several was running when the executor died cannot be told
   * @returns the sequence to quarantine, if this fault proves one guilty
   */
  faulted(step: readonly Suspicion[]): Sequence | undefined {
    const again = step.filter(({ sequence }) => this.group?.has(sequence) ?? this.blamed.has(sequence));
    const [only] = again;
    if (this.group?.size === 1 && only !== undefined) {
      this.settle();
      return only.sequence;
    }
    this.blamed.clear();
    for (const { sequence, end } of again.length > 0 ? again : step) this.blamed.set(sequence, end);
    this.group = undefined;
    if (again.length > 0) this.nextGroup();
    return undefined;
  }

  /** A sequence's step came back: past the position it is blamed for, it is cleared. */
  progressed(sequence: Sequence): void {
    const end = this.blamed.get(sequence);
    if (end !== undefined && sequence.computed >= end) this.clear(sequence);
  }

  /** The sequence ended: it cannot fault any more. */
  ended(sequence: Sequence): void {
    if (this.blamed.has(sequence)) this.clear(sequence);
  }

  private clear(sequence: Sequence): void {
    this.blamed.delete(sequence);
    this.group?.delete(sequence);
    if (this.group?.size === 0) this.nextGroup();
  }

  private nextGroup(): void {
    const suspects = [...this.blamed.keys()];
    this.group = suspects.length === 0 ? undefined : new Set(suspects.slice(0, Math.ceil(suspects.length / 2)));
  }

  private settle(): void {
    this.blamed.clear();
    this.group = undefined;
  }
}
