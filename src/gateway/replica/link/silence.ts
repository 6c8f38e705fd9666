import type { Logger } from '../../../shared/log.js';
import { type ConnectionProblem, connectionProblem } from './connection-problem.js';
import type { RemoteExecutor } from './remote-executor.js';

/** When the address is first looked at; an executor there may still be starting. */
const FIRST_LOOK_MS = 500;
/** Between the following looks, and how long each connection of one may take. */
const LOOK_INTERVAL_MS = 1000;
const CONNECTION_TIMEOUT_MS = 500;

/** An address at which no executor answers yet. */
export interface Silence {
  /** Why not, as far as is known. */
  readonly why: string | undefined;
  /** Ends the watch: an executor has answered, or none is waited for. */
  end(): void;
}

/**
 * Logs that no executor answers at an address and why, again whenever the reason changes, until the watch is ended.
 *
 * @param waitMs how long an answer is waited for, for the log
 * @param onMismatch called when the two sides disagree about TLS, with the reason; see {@link ConnectionProblem.isMismatch}
 */
export function watchSilence(
  executor: RemoteExecutor,
  waitMs: number,
  log: Logger,
  onMismatch: (why: string) => void,
): Silence {
  const { address } = executor;
  let isOver = false;
  let logged: string | undefined;
  let looks = 0;
  let found: ConnectionProblem | undefined;
  const look = async (): Promise<void> => {
    // Files that cannot be read are reported by the connection itself.
    const problem = await connectionProblem(executor, CONNECTION_TIMEOUT_MS).catch(() => undefined);
    if (isOver) return;
    found = problem;
    const why = problem === undefined ? '' : `: ${problem.why}`;
    looks += 1;
    // At the first look one without a problem is about to answer.
    if (why !== logged && (problem !== undefined || looks > 1)) {
      log.warn({ address }, `no executor answers yet${why}; it is tried for ${waitMs / 1000} s`);
      logged = why;
    }
    timer = setTimeout(() => void look(), LOOK_INTERVAL_MS);
    if (problem?.isMismatch) onMismatch(problem.why);
  };
  let timer = setTimeout(() => void look(), FIRST_LOOK_MS);
  return {
    get why() {
      return found?.why;
    },
    end: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
