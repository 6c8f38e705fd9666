import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { TIER } from './test/support/run-size.js';
import SlowestFirst from './test/support/slowest-first.js';
import { filesOf } from './test/tiers.mjs';

// `ROCMFORGE_TIER` chooses what runs: see test/tiers.mjs. Tests that measure time and tests on the emulator have
// configurations of their own.
const root = path.dirname(fileURLToPath(import.meta.url));
const files = filesOf(TIER, root).filter((file) => file.endsWith('.test.ts'));
const unit = new Set(filesOf('unit', root));
const isKernel = (file: string): boolean =>
  file.startsWith('test/kernels/') && !/\/(build|lanes)\.test\.ts$/.test(file);
/** In-process models on the host: what loads a test device or starts a process changes its own process for good. */
const isModel = (file: string): boolean =>
  file.startsWith('test/executor/') &&
  !/\/(fusions|kv-cache-q8|launch-plan|memory|single-token|parity-mutations)\.test\.ts$/.test(file);

/** What a test changes, or looks at, in its own process: its variables and handlers, its memory, and whose parent it is. */
const OWN_PROCESS =
  /HipDouble|process\.(env|on|once|umask|exitCode)\b|\bvi\.|executorsOf\(process|memoryUsage|residentMb|worker_threads|\/proc\/self/;
/** Gateways in this process and executors in others: files that leave the process as it was share a worker. */
const isService = (file: string): boolean =>
  /^test\/(cli|client|e2e|faults|gateway|tools)\//.test(file) &&
  !OWN_PROCESS.test(readFileSync(path.join(root, file), 'utf8'));
const isOther = (file: string): boolean => !isKernel(file) && !isModel(file) && !isService(file);

export default defineConfig({
  test: {
    // What is waited for comes, or the test fails: how soon is no matter of a busy machine. The limits only end what hangs.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    // One more than the cores of the smallest machine that we promise to: tests wait for processes, timers and proxies.
    maxWorkers: 3,
    sequence: { sequencer: SlowestFirst },
    globalSetup: ['./test/support/run-folder.ts'],
    setupFiles: ['./test/support/file-folder.ts', './test/support/equal-bytes.ts', './test/support/generated-cases.ts'],
    reporters: ['./test/support/summary-reporter.ts'],
    projects: [
      // Files without state of their own share a worker: importing the same modules again took 40 % of their time.
      { extends: true, test: { name: 'unit', isolate: false, include: files.filter((file) => unit.has(file)) } },
      {
        extends: true,
        test: { name: 'kernels', isolate: false, include: files.filter((file) => isKernel(file) && !unit.has(file)) },
      },
      {
        extends: true,
        test: { name: 'models', isolate: false, include: files.filter((file) => isModel(file) && !unit.has(file)) },
      },
      {
        extends: true,
        test: { name: 'services', isolate: false, include: files.filter((file) => isService(file) && !unit.has(file)) },
      },
      { extends: true, test: { name: 'system', include: files.filter((file) => isOther(file) && !unit.has(file)) } },
    ],
  },
});
