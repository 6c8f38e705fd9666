import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll } from 'vitest';
import { endLeftProcesses } from './left-processes.js';

/**
 * A setup file: the temporary folder of a test file and of the processes that it starts, removed with all that is in it. A file
 * that leaves a process behind fails.
 */
// Hooks of a file whose tests are all skipped do not run: in a shared worker the next one still finds that file's folder.
const usual = process.env.ROCMFORGE_TEST_TMPDIR ?? process.env.TMPDIR;
if (usual !== undefined) Object.assign(process.env, { TMPDIR: usual, ROCMFORGE_TEST_TMPDIR: usual });
const folder = mkdtempSync(path.join(os.tmpdir(), 'f'));
process.env.TMPDIR = folder;
const environment = process.env;

// Hooks run in the reverse of their order: this one after those of the file.
afterAll(async () => {
  const left = await endLeftProcesses(folder);
  if (process.env !== environment) throw new Error('a test replaced process.env: use restoreEnvironment');
  if (usual === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = usual;
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (left.length === 0) return;
  const lines = left.map(({ pid, commandLine }) => `  ${pid} ${commandLine}`);
  throw new Error(`the tests of this file left processes behind:\n${lines.join('\n')}`);
});
