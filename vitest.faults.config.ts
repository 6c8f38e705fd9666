import { defineConfig } from 'vitest/config';

// What may go wrong, all of it, with a budget a part. `*.clock.ts` judge by wall clock (a loop's delay, a deadline, a first
// token's wait), so they run here, on a quiet machine, and never in `npm test`.
export default defineConfig({
  test: {
    include: [
      'test/faults/**/*.test.ts',
      'test/faults/**/*.clock.ts',
      'test/device/hip-faults.test.ts',
      'test/gateway/replica/link/supervision.test.ts',
    ],
    // What is waited for comes, or the test fails: how soon is no matter of a busy machine. The limits only end what hangs.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 300_000 } },
    // One file at a time: what is measured must not wait for another's processes.
    fileParallelism: false,
    globalSetup: ['./test/support/run-folder.ts'],
    setupFiles: ['./test/support/file-folder.ts'],
    reporters: ['./test/support/summary-reporter.ts'],
  },
});
