import { mkdirSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ReloadedFiles } from '../../src/shared/reloaded-files.js';

let file: string;
let other: string;
let warnings: string[];
let files: ReloadedFiles<string>;
let told: string[];
beforeEach(() => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  [file, other] = [path.join(folder, 'a'), path.join(folder, 'b')];
  writeFileSync(file, 'one');
  writeFileSync(other, '1');
  warnings = [];
  told = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line).why) });
  files = new ReloadedFiles(
    [
      { option: 'first', path: file },
      { option: 'second', path: other },
    ],
    ([a = '', b]) => {
      if (a.includes('bad')) throw new Error(`${a} is bad`);
      return `${a} ${b}`;
    },
    log,
  );
  files.onChange((value) => told.push(value));
});
afterEach(() => files.close());

it('says what the files say now, after a write and after a rename', async () => {
  expect(files.current()).toBe('one 1');
  writeFileSync(file, 'two');
  await files.check();
  writeFileSync(`${file}.new`, 'three');
  renameSync(`${file}.new`, file);
  writeFileSync(other, '3');
  await files.check();
  expect(files.current()).toBe('three 3');
  expect(told).toEqual(['two 1', 'three 3']);
});

it('sees a change within one tick of the file’s clock and of the same length', async () => {
  for (const text of ['abc', 'abd', 'abe', 'abf']) {
    writeFileSync(file, text);
    await files.check();
    expect(files.current()).toBe(`${text} 1`);
  }
});

it('waits a moment before it takes an empty file, which may be written next', async () => {
  writeFileSync(file, '');
  await files.check();
  expect(files.current()).toBe('one 1');
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 2000 });
  try {
    await files.check();
  } finally {
    vi.useRealTimers();
  }
  expect(files.current()).toBe(' 1');
});

it('tells nobody when a file was touched and says the same', async () => {
  utimesSync(file, 1, 1);
  await files.check();
  expect(told).toEqual([]);
});

it('keeps what it knew while a file is bad or gone, complains once, and goes on when it is good again', async () => {
  writeFileSync(file, 'bad');
  await files.check();
  await files.check();
  rmSync(file);
  await files.check();
  mkdirSync(file);
  await files.check();
  expect(files.current()).toBe('one 1');
  expect(told).toEqual([]);
  expect(warnings).toEqual(['bad is bad', `--first ${file} does not exist`, `--first ${file} is not a file; name one`]);
  rmSync(file, { recursive: true });
  writeFileSync(file, 'two');
  await files.check();
  expect(files.current()).toBe('two 1');
});

it('looks by itself', async () => {
  writeFileSync(file, 'two');
  await expect.poll(() => files.current()).toBe('two 1');
});

it('tells nobody once it is closed', async () => {
  files.close();
  writeFileSync(file, 'two');
  await files.check();
  expect(told).toEqual([]);
});
