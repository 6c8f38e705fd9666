import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { judgeLoss, outOfMemoryKills } from '../../../../src/gateway/replica/link/loss.js';

const QUIET = { exit: undefined, isHung: false, isAnswer: false, outOfMemoryKills: 0 };
const signal = (name: NodeJS.Signals, isKilled = false) => ({ ...QUIET, exit: { code: null, signal: name, isKilled } });
const code = (number: number) => ({ ...QUIET, exit: { code: number, signal: null, isKilled: false } });

describe('the end of an executor', () => {
  it.each([
    ['SIGSEGV', signal('SIGSEGV')],
    ['SIGABRT', signal('SIGABRT')],
    ['SIGBUS', signal('SIGBUS')],
    ['exit_86', code(86)],
    ['exit_1', code(1)],
    ['hung', { ...signal('SIGKILL'), isHung: true }],
    ['answer', { ...code(0), isAnswer: true }],
    ['out_of_memory', { ...signal('SIGKILL'), outOfMemoryKills: 1 }],
  ])('%s may be the doing of what it computed', (reason, circumstances) => {
    expect(judgeLoss(circumstances)).toEqual({ reason, isEvidence: true, isOutside: false, isFault: true });
  });

  it.each([
    ['SIGKILL', signal('SIGKILL'), true],
    ['SIGTERM', signal('SIGTERM'), true],
    ['exit_0', code(0), false],
    ['connection', QUIET, false],
    ['replaced', { ...signal('SIGKILL'), isReplaced: true }, false],
    // Somebody else was ended for want of memory; this one was asked to go.
    ['SIGTERM', { ...signal('SIGTERM'), outOfMemoryKills: 1 }, true],
  ])('%s says nothing of it', (reason, circumstances, isOutside) => {
    expect(judgeLoss(circumstances)).toEqual({ reason, isEvidence: false, isOutside, isFault: false });
  });

  it.each([
    ['SIGKILL', signal('SIGKILL', true)],
    ['replaced', { ...signal('SIGABRT'), isReplaced: true }],
    ['replaced', { ...code(86), isReplaced: true }],
    ['replaced', { ...signal('SIGKILL', true), isReplaced: true }],
  ])('%s says nothing of the requests, but that its memory may be damaged', (reason, circumstances) => {
    expect(judgeLoss(circumstances)).toEqual({ reason, isEvidence: false, isOutside: false, isFault: true });
  });
});

describe('how often memory was wanting', () => {
  const root = (files: Readonly<Record<string, string>>): string => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
      writeFileSync(path.join(folder, name), content);
    }
    return folder;
  };

  it.each<[string, Readonly<Record<string, string>>, number]>([
    [
      'is counted by the unified hierarchy',
      {
        'proc/self/cgroup': '0::/a/b\n',
        'sys/fs/cgroup/a/b/memory.events': 'low 0\noom 4\noom_kill 3\noom_group_kill 0\n',
      },
      3,
    ],
    [
      'by the older one',
      {
        'proc/self/cgroup': '4:memory,hugetlb:/x\n3:cpu:/y\n0::/\n',
        'sys/fs/cgroup/memory/x/memory.oom_control': 'oom_kill_disable 0\nunder_oom 0\noom_kill 2\n',
      },
      2,
    ],
    ['in a container', { 'proc/self/cgroup': '0::/not/mounted\n', 'sys/fs/cgroup/memory.events': 'oom_kill 7\n' }, 7],
    ['or by nobody', {}, 0],
  ])('%s', (_name, files, count) => {
    expect(outOfMemoryKills(root(files))).toBe(count);
  });
});
