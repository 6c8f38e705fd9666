import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const tool = (name: string) => path.join(packageRoot, 'tools', name);

it('a kernel that stores out of range ends the executor, is named by its record, and costs no stream a token', async () => {
  const planted = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const built = spawnSync(process.execPath, [tool('plant-mistake.mjs'), '--output', planted, '--position', '40']);
  expect(built.status, String(built.stderr)).toBe(0);
  const args = [tool('out-of-range-store.mjs'), '--planted', planted, '--tokens', '60'];
  const { code, stdout, stderr } = await runProgram(process.execPath, args);
  expect(code, stdout + stderr).toBe(0);
  const { same, streams, executors, fault } = JSON.parse(stdout);
  expect([same, executors]).toEqual([streams, 2]);
  expect(fault.signal).toBe('SIGSEGV');
  expect(fault.record.signal.name).toBe('SIGSEGV');
  expect(fault.record.launch.kernel).toBe('rope_kv_append_f16');
  // The step before it may have ended with its result not yet taken.
  expect(fault.record.steps).toContain(fault.record.launch.step);
});
