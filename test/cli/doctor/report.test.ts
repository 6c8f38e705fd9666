import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { formatFindings } from '../../../src/cli/doctor/finding.js';
import { formatReport } from '../../../src/cli/doctor/report.js';
import { packageRoot } from '../../../src/shared/package.js';
import { rocmforge, runProgram } from '../../support/command-line.js';

const whose = { userName: 'ada', hostName: 'engine.example.org', home: '/home/Ada Lovelace' };

it('a report holds no name and no path but those of devices', () => {
  const report = formatReport(
    [
      { check: '/dev/kfd', state: 'failed', detail: 'may not be opened by ada; group render', fix: 'sudo usermod' },
      { check: 'HIP runtime', state: 'ok', detail: '1, by /opt/rocm-6.4.1/lib/libamdhip64.so.6, version 60400000' },
      { check: 'faults', state: 'ok', detail: 'none kept in /home/Ada Lovelace/.local/state/rocmforge' },
      {
        check: 'fault',
        state: 'info',
        detail: 'SIGSEGV on engine: "unix:/run/user/1000/x.sock" adamant /sys/class/kfd',
      },
    ],
    whose,
  );
  expect(report.split('\n')).toEqual([
    '```',
    'failed  /dev/kfd: may not be opened by <name>; group render',
    'ok      HIP runtime: 1, by <path>, version 60400000',
    'ok      faults: none kept in <path>',
    'info    fault: SIGSEGV on <name>: "unix:<path>" adamant /sys/class/kfd',
    '```',
  ]);
});

it('the table has below each line the command that fixes it', () => {
  const table = formatFindings([
    { check: 'a', state: 'ok', detail: 'well' },
    { check: 'longer', state: 'failed', detail: 'ill', fix: 'drink' },
  ]);
  expect(table).toBe('a       ok       well\nlonger  failed   ill\n        fix:     drink');
});

it('rocmforge doctor --report prints one such block of this machine', async () => {
  const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
  const { stdout } = await runProgram(process.execPath, [main, 'doctor', '--report'], '', { HOME: '/home/somebody' });
  expect(stdout).toMatch(/^```\n(?:(?:ok|missing|failed|info) +[^\n]+\n)+```\n$/);
  expect(stdout).not.toContain(packageRoot);
  expect(stdout.match(/(?<![\w.<])\/(?!dev\b|sys\b)\w+/g)).toBeNull();
});

it('doctor shows what a fault file says without letting it steer the terminal', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const fault = { at: '2026-11-25T00:00:00.000Z', cause: 'hung \u001b[2J\u009b2J', exitCode: null, signal: 'SIGKILL' };
  writeFileSync(path.join(folder, 'faults.json'), JSON.stringify([{ ...fault, lastLine: 'driver: \u001b]0;x\u0007' }]));
  for (const format of [[], ['--json'], ['--report']]) {
    const { stdout } = await rocmforge('doctor', '--state-dir', folder, ...format);
    expect(stdout).toContain('driver: ');
    expect(stdout.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
  }
});
