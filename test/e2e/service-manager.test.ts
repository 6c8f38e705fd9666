import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { endProcess, runProgram, startRocmforge } from '../support/command-line.js';
import { writeRandomModel } from '../support/random-model.js';

const model = writeRandomModel();
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const COMMAND = path.join(packageRoot, 'dist', 'cli', 'main.js');
const UNITS = path.join(packageRoot, 'deploy', 'systemd');
const serve = (name: string) => ['serve', '--model', model, '--listen', `unix:${path.join(folder, name)}`];

/** Runs a command under a service manager's socket. @returns what it was told, and the exit code */
async function told(socket: string, count: number, env: Record<string, string>, args: readonly string[]) {
  const program = path.join(packageRoot, 'test', 'support', 'notify_socket.py');
  const all = [program, socket, String(count), process.execPath, COMMAND, ...args];
  const { code, stdout, stderr } = await runProgram('python3', all, '', env);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const lines = stdout.trim().split('\n');
  return { code: Number(lines.pop()), messages: lines.map((line) => JSON.parse(line)) };
}

describe('a service manager', () => {
  it('is told by the main process when requests are served, that it lives, and when it ends', async () => {
    const { code, messages } = await told(path.join(folder, 'notify'), 3, { WATCHDOG_USEC: '200000' }, serve('a.sock'));
    expect(code).toBe(0);
    expect(messages.filter(({ own }) => !own)).toEqual([]);
    const texts = messages.map(({ text }) => text);
    expect(texts[0]).toMatch(
      /^READY=1\nSTATUS=serving random on unix:\S+ 4 sequences of \d+ tokens, f16 KV cache, on \S.*$/,
    );
    expect(texts.slice(1, 3)).toEqual(['WATCHDOG=1', 'WATCHDOG=1']);
    expect(texts.at(-1)).toBe('STOPPING=1\nSTATUS=ending what is under way');
  });

  it('with a socket in the abstract namespace, and a watch over another process, is told the rest', async () => {
    const env = { WATCHDOG_USEC: '1000', WATCHDOG_PID: '1' };
    const { messages } = await told(`@rocmforge-${process.pid}`, 1, env, serve('b.sock'));
    expect(messages.map(({ text }) => text.split('\n')[0])).toEqual(['READY=1', 'STOPPING=1']);
  });

  it('that is not there does not keep a gateway from serving', async () => {
    process.env.NOTIFY_SOCKET = path.join(folder, 'nobody');
    try {
      const { child } = await startRocmforge(/the service manager was not notified/, ...serve('c.sock'));
      expect(await endProcess(child)).toBe(0);
    } finally {
      delete process.env.NOTIFY_SOCKET;
    }
  });
});

/** True if a program is there; units are looked at where systemd is installed. */
const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0;

describe.skipIf(!hasAnalyze)('units (skipped where there is no systemd-analyze)', () => {
  // A system of its own: this one need not have the user, the command and the targets.
  const system = path.join(folder, 'system');
  const units = readdirSync(UNITS);
  const at = path.join(system, 'etc', 'systemd', 'system');
  for (const part of ['usr/local/bin', 'usr/lib', 'opt/rocmforge/node_modules/rocmforge/docs'])
    mkdirSync(path.join(system, part), { recursive: true });
  cpSync(UNITS, at, { recursive: true });
  cpSync('/usr/lib/systemd', path.join(system, 'usr', 'lib', 'systemd'), { recursive: true, verbatimSymlinks: true });
  mkdirSync(path.join(system, 'bin'));
  for (const program of ['usr/local/bin/rocmforge', 'bin/kill'])
    writeFileSync(path.join(system, program), '#!/bin/sh\n', { mode: 0o755 });

  it.each(units)('%s is understood as a whole', async (unit) => {
    const { code, stdout, stderr } = await runProgram('systemd-analyze', ['verify', `--root=${system}`, unit]);
    expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  // Exposure of 100, in tenths of what systemd-analyze prints; 20: what it calls OK.
  it.each(units)('%s exposes at most 2.0 of 10', async (unit) => {
    const args = ['security', '--offline=true', '--no-pager', '--threshold=20', path.join(at, unit)];
    const { code, stdout } = await runProgram('systemd-analyze', args);
    expect({ code, overall: /Overall exposure level.*/.exec(stdout)?.[0] }).toEqual({
      code: 0,
      overall: expect.stringMatching(/(OK|SAFE)/),
    });
  });
});
