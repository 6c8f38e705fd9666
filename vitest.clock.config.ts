import { defineConfig } from 'vitest/config';

// Tests that judge by wall clock (an event loop's delay, a deadline, the wait for a first token): a suite of the full tier,
// one file at a time, because what is measured must not wait for another file's processes.
export default defineConfig({
  test: {
    include: ['test/faults/**/*.clock.ts', 'test/gateway/api/http/*.clock.ts'],
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    fileParallelism: false,
    globalSetup: ['./test/support/run-folder.ts'],
    setupFiles: ['./test/support/file-folder.ts', './test/support/equal-bytes.ts', './test/support/generated-cases.ts'],
    reporters: ['./test/support/summary-reporter.ts'],
  },
});
