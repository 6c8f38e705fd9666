import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const ROOT = path.join(import.meta.dirname, '../..');
const SERVE = 'exec node dist/cli/main.js serve --model models/demo.gguf --device host --listen 127.0.0.1:0';

/** Output and end of `serve`, behind a line of shell. */
function start(before: string): Promise<{ readonly code: number | null; readonly lines: readonly string[] }> {
  const child = spawn('bash', ['-c', `${before}; ${SERVE}`], { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (data) => {
    said += String(data);
  });
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, lines: said.trimEnd().split('\n') }));
  });
}

it.each([20, 24, 32, 64, 90])('with %i files it says in one line what to raise, and ends', async (files) => {
  const { code, lines } = await start(`ulimit -n ${files}`);
  expect(lines).toEqual([expect.stringMatching(/^rocmforge: SYSTEM_LIMIT: .*128.*ulimit -n, LimitNOFILE/)]);
  expect(code).toBe(1);
});

/** Control groups of processes, of whichever version is there and may be written. */
const group = ['/sys/fs/cgroup/pids', '/sys/fs/cgroup']
  .map((mount) => path.join(mount, `rocmforge-test-${process.pid}`))
  .find((folder) => {
    try {
      mkdirSync(folder);
    } catch {
      return false;
    }
    if (existsSync(path.join(folder, 'pids.max'))) return true;
    rmdirSync(folder);
    return false;
  });
afterAll(() => {
  if (group !== undefined) rmdirSync(group);
});
const reason = 'needs a control group of processes that this user may make';

describe.skipIf(group === undefined)(`a small control group (${reason})`, () => {
  it.each([15, 22])('with %i processes and threads it says in one line what to raise, and ends', async (tasks) => {
    writeFileSync(path.join(group as string, 'pids.max'), String(tasks));
    const { code, lines } = await start(`echo $$ > ${group}/cgroup.procs`);
    expect(lines).toEqual([
      expect.stringMatching(
        new RegExp(`^rocmforge: SYSTEM_LIMIT: pids\\.max .* is ${tasks} .* more are needed; raise it`),
      ),
    ]);
    expect(code).toBe(1);
  });
});
