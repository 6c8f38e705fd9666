import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Exit } from './executor-process.js';

/** Signals that a process gets for its own faults, although others could send them, too. */
const OWN_SIGNALS: ReadonlySet<NodeJS.Signals> = new Set([
  'SIGSEGV',
  'SIGABRT',
  'SIGBUS',
  'SIGILL',
  'SIGFPE',
  'SIGTRAP',
  'SIGSYS',
]);

/** Why an executor that served was lost, and whether its requests may be the cause. */
export interface Loss {
  /** In a word, such as `hung`, `SIGKILL`, `exit_86`, `connection` or `answer`. */
  readonly reason: string;
  /**
   * True if a step in flight may have caused the loss. An executor that was killed externally, disconnected or taken over is not
   * evidence against its requests.
   */
  readonly isEvidence: boolean;
  /** True if another process killed the executor, not this gateway or the kernel: the executor is not at fault. */
  readonly isOutside: boolean;
  /** True if it faulted, hung or had to be killed, in any state, also after its end was requested: it may have written anywhere. */
  readonly isFault: boolean;
}

export interface LossCircumstances {
  /** End of the process; undefined for an executor at an address, and for one that could not be killed. */
  readonly exit: Pick<Exit, 'code' | 'signal' | 'isKilled'> | undefined;
  /** A step missed its deadline: the gateway ended the executor. */
  readonly isHung: boolean;
  /** The executor answered a step with an error, or with what cannot be an answer to it. */
  readonly isAnswer: boolean;
  /** An operator requested the end; default false. */
  readonly isReplaced?: boolean;
  /** Processes of this control group that the kernel's OOM killer ended while the executor ran. */
  readonly outOfMemoryKills: number;
}

/** Conclusions from the end of an executor. Pure. */
export function judgeLoss(circumstances: LossCircumstances): Loss {
  const loss = judge(circumstances);
  // One that this gateway had to kill may be as little in order as one that faulted.
  const isFault = loss.isEvidence || circumstances.exit?.isKilled === true;
  return circumstances.isReplaced
    ? { reason: 'replaced', isEvidence: false, isOutside: false, isFault }
    : { ...loss, isFault };
}

function judge({ exit, isHung, isAnswer, outOfMemoryKills }: LossCircumstances): Omit<Loss, 'isFault'> {
  const { code = null, signal = null } = exit ?? {};
  const evidence = (reason: string) => ({ reason, isEvidence: true, isOutside: false });
  if (isHung) return evidence('hung');
  if (signal !== null && OWN_SIGNALS.has(signal)) return evidence(signal);
  // The program chose its exit code; 0 is its response to SIGTERM.
  if (code !== null && code !== 0) return evidence(`exit_${code}`);
  if (isAnswer) return evidence('answer');
  if (signal === 'SIGKILL' && outOfMemoryKills > 0) return evidence('out_of_memory');
  const reason = signal ?? (code === null ? 'connection' : `exit_${code}`);
  return { reason, isEvidence: false, isOutside: signal !== null && !exit?.isKilled };
}

/**
 * Number of processes of this control group that the kernel's OOM killer has ended; 0 where it is not counted.
 *
 * @param root where `/proc` and `/sys` are; for tests
 */
export function outOfMemoryKills(root = '/'): number {
  const [unified, memory] = controlGroups(root);
  const files = [
    unified !== undefined && path.join(root, 'sys/fs/cgroup', unified, 'memory.events'),
    memory !== undefined && path.join(root, 'sys/fs/cgroup/memory', memory, 'memory.oom_control'),
    // In a container the group's own path may not be what is mounted.
    path.join(root, 'sys/fs/cgroup/memory.events'),
    path.join(root, 'sys/fs/cgroup/memory/memory.oom_control'),
  ];
  for (const file of files) {
    const count = file === false ? undefined : /^oom_kill (\d+)$/m.exec(contentOf(file))?.[1];
    if (count !== undefined) return Number(count);
  }
  return 0;
}

/** This process's groups: of the unified hierarchy, and of the older memory controller. */
function controlGroups(root: string): [unified: string | undefined, memory: string | undefined] {
  const lines = contentOf(path.join(root, 'proc/self/cgroup')).split('\n');
  const groupOf = (is: (controllers: string) => boolean) =>
    lines.map((line) => /^\d+:([^:]*):(.*)$/.exec(line)).find((match) => match && is(match[1] as string))?.[2];
  return [
    groupOf((controllers) => controllers === ''),
    groupOf((controllers) => controllers.split(',').includes('memory')),
  ];
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
