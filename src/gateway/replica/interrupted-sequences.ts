import type { Sequence } from '../request/sequence.js';

/**
 * Sequences that a lost executor ran and that have not made a step since: while there are any, a recovery is not over. One that
 * its reader or its client's limit holds up is not waited for.
 */
export class InterruptedSequences {
  private readonly sequences = new Set<Sequence>();

  /** The executor was lost with these. Those of an earlier loss stay. */
  add(sequences: Iterable<Sequence>): void {
    for (const sequence of sequences) this.sequences.add(sequence);
  }

  /** A sequence made a step, ended, or continues elsewhere. */
  delete(sequence: Sequence): void {
    this.sequences.delete(sequence);
  }

  /** True if nothing is waited for. */
  get areResumed(): boolean {
    for (const { paused } of this.sequences) if (!paused) return false;
    return true;
  }
}
