import type { Sequence } from '../../src/gateway/request/sequence.js';

/** A slot of the modelled executor. */
export interface Slot {
  readonly sequence: Sequence;
  readonly known: Uint32Array;
  readonly blocks: number[];
  lastToken: number;
  /** The position of the token that was not sampled because its mask had not come in time. */
  missing: number | undefined;
  /** Recurrent states that its last slice read and wrote. */
  states: State[];
  /** Chains up to each position of its last slice with draft tokens. */
  replay: Replay | undefined;
}

/** Positions that the next slice may replay, from one on that a state stands before. */
export interface Replay {
  readonly position: number;
  readonly contents: number[];
}

/** A recurrent state: what the tokens before a position amount to. */
export interface State {
  readonly position: number;
  readonly content: number;
  /** Its snapshot, if it is one; another's write of it makes it another. */
  readonly snapshot?: number;
  /** The state that stands, if this one is reached from it by replaying. */
  readonly base?: State;
}
