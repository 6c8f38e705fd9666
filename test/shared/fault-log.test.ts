import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { beforeEach, expect, it } from 'vitest';
import { examine } from '../../src/cli/doctor/doctor.js';
import { reportFault } from '../../src/gateway/replica/link/fault-reports.js';
import { type Fault, keepFault, readFaults } from '../../src/shared/fault-log.js';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  file = path.join(folder, 'faults.json');
});

const faultAt = (executorEpoch: number): Fault => ({
  at: '2026-11-21T11:26:47.198Z',
  pid: 1,
  executorEpoch,
  cause: '',
  exitCode: null,
  signal: 'SIGKILL',
  record: undefined,
  lastLine: '',
});

it('keeps the last 32 faults, however many come at once', async () => {
  await Promise.all(Array.from({ length: 40 }, (_, i) => keepFault(folder, faultAt(i))));
  const { faults, unreadable } = readFaults(folder);
  expect(faults.map(({ executorEpoch }) => executorEpoch)).toEqual(Array.from({ length: 32 }, (_, i) => i + 8));
  expect(unreadable).toBe(0);
});

it.each<[string, string]>([
  ['a newer version', '{"version": 9, "faults": [{"code": "hang"}]}'],
  [
    'an entry with a signal of another type',
    JSON.stringify([faultAt(1), { ...faultAt(2), signal: { name: 'SIGKILL' } }]),
  ],
  ['half a file', JSON.stringify([faultAt(1), faultAt(2)]).slice(0, -20)],
  ['more than a gateway writes', `[${' '.repeat(17 << 20)}]`],
])('puts a file of %s aside before it writes another', async (_, text) => {
  const earlier = `${file}.1`;
  writeFileSync(earlier, 'put aside before');
  writeFileSync(file, text);
  expect(await keepFault(folder, faultAt(3))).toBe(`${file}.2`);
  expect(readFileSync(`${file}.2`, 'utf8')).toBe(text);
  expect(readFileSync(earlier, 'utf8')).toBe('put aside before');
  expect(readFaults(folder)).toMatchObject({ unreadable: 0 });
  expect(readFaults(folder).faults.at(-1)).toEqual(JSON.parse(JSON.stringify(faultAt(3))));
  expect(await keepFault(folder, faultAt(4))).toBeUndefined();
  expect(readdirSync(folder).sort()).toEqual(['faults.json', 'faults.json.1', 'faults.json.2']);
});

it('logs a hang as one, not as the signal by which the gateway ended it', () => {
  const messages: string[] = [];
  const log = pino({}, { write: (line: string) => messages.push((JSON.parse(line) as { msg: string }).msg) });
  reportFault(faultAt(1), undefined, log);
  reportFault({ ...faultAt(2), cause: 'executor hung: no step for 2000 ms; killed by the gateway' }, undefined, log);
  expect(messages).toEqual([
    'executor fault: SIGKILL; before it kept a record',
    'executor hung: no step for 2000 ms; killed by the gateway; before it kept a record',
  ]);
});

it('keeps the entries that it can read of a file that it puts aside', async () => {
  writeFileSync(file, JSON.stringify([faultAt(1), { at: 5 }, faultAt(2)]));
  await keepFault(folder, faultAt(3));
  expect(readFaults(folder).faults.map(({ executorEpoch }) => executorEpoch)).toEqual([1, 2, 3]);
});

it('puts at most 16 files aside, and then fails rather than lose the one that is there', async () => {
  for (let n = 1; n <= 16; n++) writeFileSync(`${file}.${n}`, '');
  writeFileSync(file, '{}');
  await expect(keepFault(folder, faultAt(1))).rejects.toThrow(/16 files were put aside already; remove some$/);
  expect(readFileSync(file, 'utf8')).toBe('{}');
});

it('a file that is put aside leaves a line in the log', async () => {
  writeFileSync(file, '{"version": 9}');
  const lines: string[] = [];
  reportFault(faultAt(1), folder, pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }));
  await expect.poll(() => lines.length).toBe(2);
  expect(JSON.parse(lines[1] as string)).toMatchObject({ file: `${file}.1`, msg: expect.stringMatching(/put aside/) });
});

it.each([
  ['a pipe', () => execFileSync('mkfifo', [file])],
  ['a folder', () => mkdirSync(file)],
])(
  'reads nothing of %s in the place of its file, fails to keep a fault there, and waits for neither',
  async (_, make) => {
    make();
    expect(readFaults(folder)).toEqual({ faults: [], unreadable: 1 });
    await expect(keepFault(folder, faultAt(1))).rejects.toThrow(/not a regular file|EISDIR/);
  },
);

it.each<[string, string, number]>([
  ['entries of other shapes', '[null, 1, {"at": 5}, [], {"at": "x", "cause": "", "lastLine": ""}]', 5],
  ['records of other shapes', JSON.stringify([{ ...faultAt(1), record: { phase: 'x', launch: {} } }]), 1],
  ['no list', '{}', 1],
  ['no JSON', '[{', 1],
])('doctor tells how many cannot be read: %s', async (_, text, unreadable) => {
  writeFileSync(file, text);
  expect(readFaults(folder)).toEqual({ faults: [], unreadable });
  const findings = await examine(folder);
  expect(findings.at(-1)).toMatchObject({ check: 'faults', state: 'info' });
  expect(findings.at(-1)?.detail).toMatch(new RegExp(`^${unreadable} unreadable`));
  await keepFault(folder, faultAt(2));
  expect(readFaults(folder)).toMatchObject({ faults: [{ executorEpoch: 2 }], unreadable: 0 });
});
