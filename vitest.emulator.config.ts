import { defineConfig } from 'vitest/config';

// The kernel tests on AMD code objects, run by an instruction set emulator: `ROCMFORGE_EMULATOR_TARGETS` (default
// gfx1100,gfx942) from `ROCMFORGE_TEST_KERNELS` (default build/all-kernels), each property for `ROCMFORGE_EMULATED_SECONDS`
// (default 15). Writes build/docs/verification.md.
const available = Boolean(process.env.TINYGRAD_DIR);
if (!available) console.log('emulator tests skipped: TINYGRAD_DIR is not set (see tools/emulator/run_hsaco.py)');

export default defineConfig({
  test: {
    include: available ? ['test/kernels/*.test.ts', 'test/emulator/*.emulated.ts'] : [],
    // Some files also hold tests of the other targets or of the references alone.
    testNamePattern: / on gfx/,
    exclude: ['test/kernels/contracts.test.ts', 'test/kernels/lanes.test.ts'],
    passWithNoTests: !available,
    env: { ROCMFORGE_TEST_EMULATOR: process.env.ROCMFORGE_EMULATOR_TARGETS ?? 'gfx1100,gfx942' },
    testTimeout: 600_000,
    // One emulator process for all files of a worker: it starts slowly and keeps what it compiled.
    isolate: false,
    globalSetup: ['./test/support/run-folder.ts'],
    maxWorkers: 2,
    reporters: available ? ['default', './test/emulator/verification-reporter.ts'] : ['default'],
  },
});
