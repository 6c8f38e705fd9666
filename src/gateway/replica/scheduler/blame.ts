import { GREEDY, Sequence } from '../../request/sequence.js';

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
 * halves, alone: a half that gets through is cleared, a half that faults is halved again. Of the one that faults alone
 * only a control is missing: a step without it. If that lives, the suspect is guilty; if that faults too, nobody is, and
 * the executor is unhealthy. Of s > 1 suspects that takes at most ⌈log2 s⌉ + 2 faults. Pure.
 */
export class Blame {
  private readonly blamed = new Map<Sequence, number>();
  /** The suspects that run alone now; undefined while nobody has to. */
  private group: Set<Sequence> | undefined;
  /** Suspect that faulted alone, and waits for the canary request. */
  private accused: Sequence | undefined;
  private controlling: Sequence | undefined;

  /** True if some sequences have to wait until suspicion is settled. */
  get isSearching(): boolean {
    return this.group !== undefined || this.accused !== undefined;
  }

  /** True if somebody is accused and nothing runs yet to control it. */
  get wantsControl(): boolean {
    return this.accused !== undefined && this.controlling === undefined;
  }

  /** The sequence that is computed as a control; undefined when there is none. */
  get control(): Sequence | undefined {
    return this.controlling;
  }

  /** A sequence that nobody asked for will run, alone, to see whether the executor works without the accused. */
  beginControl(sequence: Sequence): void {
    this.controlling = sequence;
  }

  /** True if a sequence may be in the next step. */
  mayRun(sequence: Sequence): boolean {
    if (this.accused !== undefined) return sequence === this.controlling;
    return this.group === undefined || this.group.has(sequence);
  }

  /**
   * The executor faulted, and in a way that says something about what it computed.
   *
   * @param step the sequences of the steps that did not come back, in order; while {@link isSearching} that must be one
   *             step at most. Which of several was running when the executor died cannot be told
   * @returns whether it is the executor that is unhealthy: it faulted in a step that had nothing but the control
   */
  faulted(step: readonly Suspicion[]): boolean {
    if (this.controlling !== undefined && step.some(({ sequence }) => sequence === this.controlling)) {
      this.settle();
      return true;
    }
    const again = step.filter(({ sequence }) => this.group?.has(sequence) ?? this.blamed.has(sequence));
    const [only] = again;
    if (this.group?.size === 1 && only !== undefined) {
      this.settle();
      this.accused = only.sequence;
      return false;
    }
    if (this.accused !== undefined) return false;
    this.blamed.clear();
    for (const { sequence, end } of again.length > 0 ? again : step) this.blamed.set(sequence, end);
    this.group = undefined;
    if (again.length > 0) this.nextGroup();
    return false;
  }

  /**
   * A sequence's step came back: past the position it is blamed for, it is cleared.
   *
   * @returns who is guilty, when this was the control
   */
  progressed(sequence: Sequence): Sequence | undefined {
    if (sequence === this.controlling) {
      const guilty = this.accused;
      this.settle();
      return guilty;
    }
    const end = this.blamed.get(sequence);
    if (end !== undefined && sequence.computed >= end) this.clear(sequence);
    return undefined;
  }

  /** True if a sequence is among those that are told apart now: it stays with the executor that it is suspected on. */
  isSuspect(sequence: Sequence): boolean {
    return this.isSearching && (this.blamed.has(sequence) || sequence === this.accused);
  }

  /** A sequence goes to another executor. @returns the position it is blamed for, which goes along */
  takeOut(sequence: Sequence): number | undefined {
    const end = this.blamed.get(sequence);
    if (end !== undefined) this.clear(sequence);
    return end;
  }

  /** A sequence comes from another executor, blamed for a position. */
  takeOver(sequence: Sequence, end: number): void {
    this.blamed.set(sequence, end);
  }

  /** The sequence ended: it cannot fault any more. */
  ended(sequence: Sequence): void {
    if (sequence === this.accused) this.settle();
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
    this.accused = undefined;
    this.controlling = undefined;
  }
}

/**
 * The least that shows whether an executor works: one token after one token, before everybody else.
 *
 * @param isEncoder true of a model that samples none: its hidden state
 */
export function controlSequence(isEncoder = false): Sequence {
  const options = { promptIds: Uint32Array.of(0), sampling: GREEDY, maxTokens: 1, priority: Number.MAX_SAFE_INTEGER };
  return new Sequence({ ...options, takesPrefix: false, ...(isEncoder && { returns: { pooling: 'last' } }) });
}
