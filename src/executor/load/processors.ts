import { readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';

/**
 * Processors that this process may use without being held up: those that it may run on, and no more whole ones than the CPU
 * quotas of its control groups allow, version 1 or 2. Threads beyond a quota end each other's time slices.
 *
 * @param root the folder in place of `/`
 */
export function usableProcessors(root = '/', runnable = os.availableParallelism()): number {
  const least = Math.min(runnable, ...quotas(root));
  return Math.max(1, Math.floor(least));
}

/** Processors that each group of this process and of those above it may use, where it has a quota. */
function quotas(root: string): number[] {
  const read = (...parts: string[]): string | undefined => {
    try {
      return readFileSync(path.join(root, ...parts), 'utf8').trim();
    } catch {
      return undefined;
    }
  };
  return (read('proc/self/cgroup') ?? '').split('\n').flatMap((line) => {
    const [, controllers = '', group = '/'] = line.split(':');
    const isUnified = controllers === '';
    if (!isUnified && !controllers.split(',').includes('cpu')) return [];
    const mounts = isUnified ? ['sys/fs/cgroup'] : [`sys/fs/cgroup/${controllers}`, 'sys/fs/cgroup/cpu'];
    // Without a namespace of its own a container sees its group's path on the host, and that group at the mount's root.
    return mounts.flatMap((mount) =>
      groupsAbove(group).flatMap((folder) => {
        const [quota, period] = isUnified
          ? (read(mount, folder, 'cpu.max') ?? 'max').split(' ').map(Number)
          : [read(mount, folder, 'cpu.cfs_quota_us'), read(mount, folder, 'cpu.cfs_period_us')].map(Number);
        // `max` and -1 are none.
        return quota !== undefined && period !== undefined && quota > 0 && period > 0 ? [quota / period] : [];
      }),
    );
  });
}

/** A group's path, and those above it up to the root. */
function groupsAbove(group: string): string[] {
  return group === '/' || group === '' ? ['/'] : [group, ...groupsAbove(path.dirname(group))];
}
