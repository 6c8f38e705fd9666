/** Launches of one code object. */
export interface Executed {
  readonly sha256: string;
  /** Names of the kernels that it holds. */
  readonly held: readonly string[];
  /** Names of the kernels that were launched. */
  readonly kernels: readonly string[];
  readonly launches: number;
  /** Executed by all waves together. */
  readonly instructions: number;
}

/** Before the JSON of an `ExecutedLine`: what a suite prints and the reporter reads. */
export const EXECUTED_PREFIX = 'emulated: ';

/** Launches of one code object by a suite. */
export interface ExecutedLine extends Executed {
  /** The code object's name without suffix. */
  readonly operation: string;
  readonly target: string;
}
