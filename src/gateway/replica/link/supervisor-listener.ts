import type { RocmForgeError } from '../../../shared/errors.js';
import type { Fault } from '../../../shared/fault-log.js';
import type { ExecutorSession } from './executor-session.js';
import type { Loss } from './loss.js';
import type { SupervisorState } from './supervision.js';

/** Listener of the starts and losses of executors. */
export interface SupervisorListener {
  /** @param cause why, of states that have one */
  state(state: SupervisorState, cause?: RocmForgeError): void;
  progress(doneBytes: number, totalBytes: number): void;
  /** A new executor serves. The listener starts the session's stream. */
  serving(session: ExecutorSession): void;
  /** The session is gone, and with it all the executor held. Another follows unless the state is `failed`. */
  lost(error: RocmForgeError): void;
  /**
   * Why the executor that was lost ended; before another begins.
   *
   * @returns whether it is unhealthy: it would fault whatever it is given
   */
  judged(loss: Loss): boolean;
  /** A process that has the executors' memory faulted, in whatever state: it may have written anywhere. */
  faulted(): void;
  /** An executor process ended without being asked to, in whatever state. */
  fault(fault: Fault): void;
  /** Another executor follows: why, in a word such as `hung`, `SIGKILL`, `exit_86` or `connection`. */
  restarts(reason: string): void;
  /** No executor can go on with what is under way: it ends with this, and so does what comes until one serves, or may be asked for. */
  unservable(error: RocmForgeError): void;
  /** Another executor serves, and all that the lost one ran has made a step, this long after the loss. */
  recovered(seconds: number): void;
}
