import { defineConfig } from 'vitest/config';
import LongestFirst from './test/support/longest-first.js';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // What is waited for comes, or the test fails: how soon is no matter of a busy machine. The limits only end what hangs.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    // Two cores are the smallest machine we promise to: suites that start processes must not starve each other.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    globalSetup: ['./test/support/run-folder.ts'],
    setupFiles: ['./test/support/file-folder.ts', './test/support/equal-bytes.ts'],
    reporters: ['default', './test/support/summary-reporter.ts'],
  },
});
