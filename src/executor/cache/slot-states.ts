import type { Slice } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { NO_STATE } from '../kernels/index.js';
import { protocolError } from './protocol-error.js';

/** Before which positions the two copies of a slot's recurrent states stand; undefined: a copy holds nothing of the slot. */
export type SlotStates = [number | undefined, number | undefined];

/** Numbers of states on the device. No source: a slice begins its sequence. */
export interface StatesOfSlice {
  readonly source: number;
  readonly target: number;
}

/**
 * The copies that a slice goes from and to: it reads one and writes the other, so that it can be sent again.
 *
 * @throws RocmForgeError `EXECUTOR_PROTOCOL` for a slice that neither copy stands before
 */
export function statesOf(states: SlotStates, { slot, position, count }: Slice): StatesOfSlice {
  const copy = position === 0 ? 1 : states.indexOf(position);
  if (copy === -1) {
    const known = states.map((at) => at ?? 'none').join(' and ');
    throw protocolError(`positions from ${position} on of slot ${slot}, whose states are of ${known}`);
  }
  states[1 - copy] = position + count;
  return { source: position === 0 ? NO_STATE : 2 * slot + copy, target: 2 * slot + 1 - copy };
}
