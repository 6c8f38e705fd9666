import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { usableProcessors } from '../../src/executor/load/processors.js';

function treeOf(files: Readonly<Record<string, string>>): string {
  const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), `${text}\n`);
  }
  return root;
}

const V1 = '12:memory:/pod\n5:cpu,cpuacct:/pod/box\n';

it.each([
  ['no control groups', {}, 16],
  ['version 2 without a quota', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': 'max 100000' }, 16],
  ['version 2 with one', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '400000 100000' }, 4],
  [
    'a part of a processor beyond whole ones',
    { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '350000 100000' },
    3,
  ],
  ['less than one', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '50000 100000' }, 1],
  ['more than there are', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': '9900000 100000' }, 16],
  [
    'the quota of a group above',
    {
      'proc/self/cgroup': '0::/user.slice/job.scope',
      'sys/fs/cgroup/user.slice/job.scope/cpu.max': 'max 100000',
      'sys/fs/cgroup/user.slice/cpu.max': '200000 100000',
    },
    2,
  ],
  [
    'a path of the host, seen from a container',
    { 'proc/self/cgroup': '0::/kubepods/pod1', 'sys/fs/cgroup/cpu.max': '600000 100000' },
    6,
  ],
  [
    'version 1',
    {
      'proc/self/cgroup': V1,
      'sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_quota_us': '300000',
      'sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_period_us': '100000',
      'sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us': '-1',
      'sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us': '100000',
    },
    3,
  ],
  [
    'version 1 by the short name, at the mount’s root',
    {
      'proc/self/cgroup': V1,
      'sys/fs/cgroup/cpu/cpu.cfs_quota_us': '150000',
      'sys/fs/cgroup/cpu/cpu.cfs_period_us': '50000',
    },
    3,
  ],
  ['nonsense', { 'proc/self/cgroup': '0::/', 'sys/fs/cgroup/cpu.max': 'x y' }, 16],
] as const)('of 16 processors, %s', (_, files, expected) => expect(usableProcessors(treeOf(files), 16)).toBe(expected));
