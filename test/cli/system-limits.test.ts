import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkSystemLimits, FEWEST_FILES, limitError } from '../../src/cli/common/system-limits.js';

const OWN_TASKS = 11;

interface Machine {
  readonly files?: number | 'unlimited';
  readonly user?: number;
  /** Limit of the user's processes and threads. */
  readonly processes?: number | 'unlimited';
  /** Lines of /proc/self/cgroup. */
  readonly groups?: readonly string[];
  /** By its folder below /sys/fs/cgroup. */
  readonly pids?: Readonly<Record<string, { readonly max: number | 'max'; readonly current: number }>>;
}

/** A folder that stands for the root of a machine. */
function machine({ files = 1024, user = 1000, processes = 'unlimited', groups = [], pids = {} }: Machine): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const write = (file: string, text: string): void => {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  };
  const status = (threads: number, uid: number) => `Name:\tnode\nUid:\t${uid}\t${uid}\nThreads:\t${threads}\n`;
  write('proc/self/status', status(OWN_TASKS, user));
  write('proc/17/status', status(OWN_TASKS, user));
  write('proc/18/status', status(40, user));
  write('proc/19/status', status(1000, user + 1));
  const line = (name: string, soft: number | string) => `${name.padEnd(26)}${soft}  ${soft}\n`;
  write('proc/self/limits', line('Max processes', processes) + line('Max open files', files));
  write('proc/self/cgroup', `${groups.join('\n')}\n`);
  for (const [folder, { max, current }] of Object.entries(pids)) {
    write(path.join('sys/fs/cgroup', folder, 'pids.max'), `${max}\n`);
    write(path.join('sys/fs/cgroup', folder, 'pids.current'), `${current}\n`);
  }
  return root;
}
/** An executor on the host with two threads: 11 of Node, one that watches its parent, two that compute; and one of the gateway. */
const NEEDED = 15;
const check = (told: Machine) => () => checkSystemLimits([2], machine(told));

it('a machine without limits serves, and so does one on which nothing can be read', () => {
  expect(check({ files: 'unlimited' })).not.toThrow();
  expect(() => checkSystemLimits([2], '/none/such')).not.toThrow();
});

it('too few files are refused by both numbers', () => {
  expect(check({ files: FEWEST_FILES })).not.toThrow();
  expect(check({ files: FEWEST_FILES - 1 })).toThrow(/may open 127 files, and needs 128 .*ulimit -n, LimitNOFILE/);
});

describe('a control group with too few processes and threads is refused, by its limit and what is needed', () => {
  it.each([
    ['version 2', ['0::/a/b'], 'a/b'],
    ['version 2, the group above', ['0::/a/b'], 'a'],
    ['version 2, the root of a container', ['0::/docker/123'], ''],
    ['version 1', ['8:pids:/a/b', '0::/'], 'pids/a/b'],
    ['version 1, the group above', ['8:pids:/a/b', '0::/'], 'pids/a'],
  ])('%s', (_what, groups, folder) => {
    const pids = (max: number) => ({ [folder]: { max, current: OWN_TASKS } });
    expect(check({ groups, pids: pids(OWN_TASKS + NEEDED) })).not.toThrow();
    expect(check({ groups, pids: pids(OWN_TASKS + NEEDED - 1) })).toThrow(
      /pids\.max of the control group is 25 .* 14 are free, and 15 more are needed; raise it \(TasksMax/,
    );
  });

  it('none where it has no limit', () => {
    expect(check({ groups: ['0::/a'], pids: { a: { max: 'max', current: 5000 } } })).not.toThrow();
  });
});

it('a user with too few processes and threads is refused, root is not', () => {
  const used = OWN_TASKS + 40;
  expect(check({ processes: used + NEEDED })).not.toThrow();
  expect(check({ processes: used + NEEDED - 1 })).toThrow(/processes of this user is 65 .* 14 are free/);
  expect(check({ user: 0, processes: 20 })).not.toThrow();
});

it('what is needed grows by executor; of executors elsewhere it is the gateway’s alone', () => {
  const told = { groups: ['0::/a'], pids: { a: { max: 100, current: 80 } } };
  expect(() => checkSystemLimits([], machine(told))).not.toThrow();
  expect(() => checkSystemLimits([4, 4, 4], machine(told))).toThrow('20 are free, and 49 more are needed');
});

it('what the system refuses later names the limit too', () => {
  const root = machine({ files: 200, groups: ['0::/a'], pids: { a: { max: 30, current: 30 } } });
  const failed = (code: string, syscall = 'open') => Object.assign(new Error(code), { code, syscall });
  expect(limitError(failed('EMFILE'), root)).toMatchObject({
    reason: 'SYSTEM_LIMIT',
    message: expect.stringContaining('may open 200 files'),
  });
  expect(limitError(new Error('wrapped', { cause: failed('EAGAIN', 'spawn') }), root)?.message).toContain(
    'pids.max of the control group is 30, 0 free',
  );
  expect(limitError(failed('EAGAIN', 'write'), root)).toBeUndefined();
  expect(limitError(failed('ENOENT'), root)).toBeUndefined();
});
