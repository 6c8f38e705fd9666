import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const limited = path.join(folder, 'limited.so');
const source = path.join(packageRoot, 'test', 'doubles', 'threads', 'limited.cc');
execFileSync(process.env.CXX ?? 'g++', ['-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', limited, source, '-ldl']);

const SAYS =
  /^rocmforge: SYSTEM_LIMIT: the system gave \d+ of 200 threads for the CPU backend; lower --threads \(usable processors: \d+\)[^\n]*ulimit -u\)\n$/;

it.each([
  ['executor', '--listen', `unix:${folder}/executor.sock`],
  ['serve', '--listen', `unix:${folder}/gateway.sock`, '--model', 'models/demo.gguf'],
  ['bench', '--model', 'models/demo.gguf'],
])('%s with more threads than the system gives ends once, with what to do', async (...args) => {
  const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
  const { code, stderr } = await runProgram(
    process.execPath,
    [main, ...args, '--device', 'host', '--threads', '200'],
    '',
    { LD_PRELOAD: limited },
  );
  expect(stderr).toMatch(SAYS);
  expect(code).toBe(1);
});
