import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { readableLine } from '../../src/shared/readable-log.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { Terminal, terminalIsMissing } from '../support/terminal.js';

const model = path.join(packageRoot, 'models', 'demo.gguf');
const serve = ['serve', '--model', model, '--device', 'host', '--listen', '127.0.0.1:0'];

describe('the log', () => {
  const missing = terminalIsMissing();
  if (missing !== undefined) console.log(`skipped: ${missing}`);
  it.skipIf(missing !== undefined)('at a terminal is for people, the executor’s lines too', async () => {
    const terminal = Terminal.rocmforge(serve, { NO_COLOR: '1' });
    // The executor's lines come by a pipe, in their own time.
    const lines = [
      /^\d\d:\d\d:\d\d\.\d{3} INFO {2}executor\[\d+\] executor listening/m,
      /INFO {2}gateway\[\d+\] executor serving/,
      /^serving /m,
    ];
    for (const line of lines) await expect.poll(() => terminal.shown).toMatch(line);
    expect(terminal.shown).not.toContain('{"level"');
    terminal.type('\x03');
    expect(await terminal.code).toBe(0);
  });

  it('elsewhere is JSON', async () => {
    const { child, line } = await startRocmforge(/executor serving/, ...serve);
    expect(JSON.parse(line)).toMatchObject({ level: 30, name: 'gateway' });
    await endProcess(child);
  });

  it('tells that no executor answers while it tries', async () => {
    const { child, line } = await startRocmforge(/no executor answers/, ...serve, '--executor', 'unix:/nowhere/x.sock');
    expect(JSON.parse(line)).toMatchObject({
      level: 40,
      address: 'unix:/nowhere/x.sock',
      msg: expect.stringMatching(/is tried for 20 s/),
    });
    await endProcess(child, 'SIGKILL');
  });
});

describe('a line for people', () => {
  const line = (entry: object) => JSON.stringify({ level: 40, time: 0, pid: 7, name: 'gateway', ...entry });

  it('has time, level, process, message and what else it tells', () => {
    expect(readableLine(line({ msg: 'lost', reason: 'X_Y', tokens: 3, why: 'a b' }), false)).toMatch(
      /^\d\d:\d\d:00\.000 WARN {2}gateway\[7\] lost {2}reason=X_Y tokens=3 why="a b"\n$/,
    );
  });

  it('shows an error’s stack below', () => {
    expect(readableLine(line({ msg: 'm', err: { stack: 'Error: x\n    at y' } }), false)).toMatch(
      /m\nError: x\n {4}at y\n$/,
    );
  });

  it('steers no terminal', () => {
    const shown = readableLine(line({ msg: '\x1b]0;title\x07', name: '\r', model: '\x9b2J' }), false);
    expect(shown.trimEnd()).not.toMatch(/\p{Cc}/u);
    expect(readableLine('\x1b[2Jplain\n', false)).toBe('\\x1b[2Jplain\n');
  });
});
