import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { examine } from '../../src/cli/doctor/doctor.js';
import { type Fault, keepFault, readFaults } from '../../src/shared/fault-log.js';

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  file = path.join(folder, 'faults.json');
});

const faultAt = (generation: number): Fault => ({
  at: '2026-11-21T11:26:47.198Z',
  pid: 1,
  generation,
  cause: '',
  exitCode: null,
  signal: 'SIGKILL',
  record: undefined,
  lastLine: '',
});

it('keeps the last 32 faults, however many come at once', async () => {
  await Promise.all(Array.from({ length: 40 }, (_, i) => keepFault(folder, faultAt(i))));
  const { faults, unreadable } = readFaults(folder);
  expect(faults.map(({ generation }) => generation)).toEqual(Array.from({ length: 32 }, (_, i) => i + 8));
  expect(unreadable).toBe(0);
});

it.each([
  ['a pipe', () => execFileSync('mkfifo', [file])],
  ['a folder', () => mkdirSync(file)],
])(
  'reads nothing of %s in the place of its file, fails to keep a fault there, and waits for neither',
  async (_, make) => {
    make();
    expect(readFaults(folder)).toEqual({ faults: [], unreadable: 1 });
    await expect(keepFault(folder, faultAt(1))).rejects.toThrow(/no regular file|EISDIR/);
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
  expect(findings.at(-1)).toMatchObject({ check: 'faults', state: 'noted' });
  expect(findings.at(-1)?.detail).toMatch(new RegExp(`^${unreadable} unreadable`));
  await keepFault(folder, faultAt(2));
  expect(readFaults(folder)).toMatchObject({ faults: [{ generation: 2 }], unreadable: 0 });
});
