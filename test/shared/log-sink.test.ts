import { execFileSync, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { LogSink } from '../../src/shared/log-sink.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const line = `${'x'.repeat(99)}\n`;

it('writes lines to a file at once', () => {
  const file = path.join(folder, 'log');
  const fd = openSync(file, 'w');
  const sink = new LogSink(fd);
  sink.write('a\n');
  sink.write('b\n');
  expect([readFileSync(file, 'utf8'), sink.dropped]).toEqual(['a\nb\n', 0]);
  closeSync(fd);
});

it('drops and counts what a full disk does not take', () => {
  const fd = openSync('/dev/full', 'w');
  const sink = new LogSink(fd);
  sink.write(line);
  sink.write(line);
  expect(sink.dropped).toBe(2);
  closeSync(fd);
});

it('drops and counts what nobody reads any more', () => {
  const [, writeEnd, close] = pipe();
  const sink = new LogSink(writeEnd);
  close();
  sink.write(line);
  expect(sink.dropped).toBe(1);
});

it('waits for nobody: of what a reader who stands still leaves, it keeps a part and counts the rest', async () => {
  const [readEnd, writeEnd] = pipe();
  const sink = new LogSink(writeEnd);
  const lines = 10_000;
  for (let i = 0; i < lines; i++) sink.write(line);
  expect(sink.dropped).toBeGreaterThan(0);
  // The reader goes on, and gets whole lines.
  let read = '';
  const reader = spawn('cat', { stdio: [readEnd, 'pipe', 'inherit'] });
  reader.stdout?.on('data', (data) => {
    read += data;
  });
  const expected = (lines - sink.dropped) * line.length;
  await expect.poll(() => read.length).toBe(expected);
  expect(read.split('\n').every((one) => one === '' || one.length === 99)).toBe(true);
  reader.kill();
});

/** A named pipe's two ends, and how to close the first. */
function pipe(): [readEnd: number, writeEnd: number, closeReader: () => void] {
  const file = path.join(mkdtempSync(path.join(folder, 'pipe-')), 'fifo');
  execFileSync('mkfifo', [file]);
  const readEnd = openSync(file, 'r+');
  return [readEnd, openSync(file, 'w'), () => closeSync(readEnd)];
}
