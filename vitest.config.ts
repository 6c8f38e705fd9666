import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What is waited for comes, or the test fails: how soon is no matter of a busy machine.
    expect: { poll: { timeout: 50_000 } },
    // Two cores are the smallest machine we promise to: suites that start processes must not starve each other.
    maxWorkers: 2,
    reporters: ['default', './test/support/summary-reporter.ts'],
  },
});
