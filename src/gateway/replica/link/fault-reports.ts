import { ERRORS, type ErrorReason, RocmForgeError } from '../../../shared/errors.js';
import { describeFault, type Fault, isHungFault, keepFault } from '../../../shared/fault-log.js';
import type { Logger } from '../../../shared/log.js';
import type { Exit } from './executor-process.js';

/** Facts about an executor process that ended unexpectedly. */
export interface EndedExecutor {
  readonly pid: number | undefined;
  /** Which of the gateway's executors it was. */
  readonly executorEpoch: number;
  /** Why it was being given up, if it was. */
  readonly cause: RocmForgeError | undefined;
  readonly exit: Exit;
}

/** The fault that an executor's end is. */
export function faultOf({ pid, executorEpoch, cause, exit }: EndedExecutor): Fault {
  return {
    at: new Date().toISOString(),
    pid,
    executorEpoch,
    cause: cause?.message ?? '',
    exitCode: exit.code,
    signal: exit.signal,
    record: exit.record,
    lastLine: exit.stderrTail.findLast((line) => !isOrdinary(line)) ?? '',
  };
}

/** The error that an executor reports in its last line, `rocmforge: REASON: message`; undefined for another line. */
export function reportedError(lastLine: string): RocmForgeError | undefined {
  const [, reason = '', message = ''] = /^rocmforge: ([A-Z_]+): (.*)$/s.exec(lastLine) ?? [];
  return Object.hasOwn(ERRORS, reason) ? new RocmForgeError(reason as ErrorReason, message) : undefined;
}

/** True for a line of the executor's log below level `error`, which says nothing about its end. */
function isOrdinary(line: string): boolean {
  const level = /^\{"level":(\d+)/.exec(line)?.[1];
  return level !== undefined && Number(level) < 50;
}

/** For metrics: faults that could not be kept. */
export const faultCounters = { notKept: 0 };

/** Logs a fault and keeps it, where there is a folder for that. */
export function reportFault(fault: Fault, stateFolder: string | undefined, log: Logger): void {
  log.error({ fault }, isHungFault(fault) ? describeFault(fault) : `executor fault: ${describeFault(fault)}`);
  if (stateFolder === undefined) return;
  keepFault(stateFolder, fault).then(
    (file) => {
      if (file === undefined) return;
      log.warn(
        { file },
        'the kept faults are damaged or of another version: they were put aside, and a new file begun',
      );
    },
    (error: unknown) => {
      faultCounters.notKept += 1;
      log.warn({ err: error }, `the fault could not be kept in ${stateFolder}`);
    },
  );
}
