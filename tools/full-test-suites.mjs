// Suites of the full test tier, in the order in which tools/test-full.mjs runs them.
import { execFileSync } from 'node:child_process';

const SHARDS = 4;
const EMULATOR_SHARDS = 2;
const MUTATION_SHARDS = 3;
/** AMD targets whose reference kernels are compiled and counted too. */
const REFERENCE_TARGETS = 'gfx942,gfx1030,gfx1100,gfx1201';

/**
 * A part of the run.
 *
 * @typedef {object} Suite
 * @property {string} name
 * @property {number} minutes time budget on two idle cores
 * @property {readonly string[]} commands run by a shell in the package's folder, in order
 * @property {() => string | undefined} [missing] why it cannot run here
 */

/** @param {string} program */
const has = (program) => {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};
/** @param {string} program */
const needs = (program) => () => (has(program) ? undefined : `${program} is not installed`);

const missingEmulator = () => (process.env.TINYGRAD_DIR ? undefined : 'TINYGRAD_DIR is not set');

/** Builds what the emulator runs, as far as it is not built yet. @param {string} options */
const codeObjects = (options) =>
  `if command -v clang-19 >/dev/null; then export HIPCC=clang-19; fi; node tools/build-kernels.mjs ${options} --target gfx942,gfx1100`;

/** @type {readonly Suite[]} */
export const SUITES = [
  {
    name: 'build',
    minutes: 15,
    commands: [
      'npm run build --silent',
      'node tools/build-kernels.mjs --twins --target host,lanes',
      'node tools/build-double.mjs',
      // What the tests' HIP device runs, where there is the compiler.
      'if command -v clang-19 >/dev/null; then HIPCC=clang-19 node tools/build-kernels.mjs --target gfx1100; fi',
    ],
  },
  { name: 'check', minutes: 4, commands: ['npm run check --silent', 'npm run docs --silent -- --check'] },
  {
    name: 'targets',
    minutes: 30,
    missing: needs('clang-19'),
    commands: [
      'HIPCC=clang-19 npm run pack:check --silent',
      'node tools/check-kernels.mjs --target all',
      `HIPCC=clang-19 node tools/build-kernels.mjs --twins --target ${REFERENCE_TARGETS}`,
      `node tools/check-kernels.mjs --target ${REFERENCE_TARGETS} --output build/all-kernels`,
      `node tools/count-kernels.mjs --target ${REFERENCE_TARGETS}`,
      'node tools/try-package.mjs --spoil',
    ],
  },
  // Before the temporary folder is full: it measures time.
  { name: 'clock', minutes: 12, commands: ['npx vitest run -c vitest.clock.config.ts'] },
  {
    name: 'clang-22',
    minutes: 6,
    missing: needs('clang-22'),
    commands: [
      'HIPCC=clang-22 node tools/build-kernels.mjs --twins --target gfx1100,gfx942 --output build/kernels-clang-22',
      'node tools/check-kernels.mjs --target gfx1100,gfx942 --output build/kernels-clang-22',
    ],
  },
  {
    name: 'nvidia',
    minutes: 15,
    missing: needs('nvcc'),
    commands: [
      'node tools/build-kernels.mjs --target sm_90',
      // Programs that call kernels by themselves: no other test compiles them.
      `for f in bench/gpu/*.cu; do nvcc -std=c++17 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -fmad=false -I kernels -c -o build/full-run/bench.o $f || exit 1; done`,
    ],
  },
  ...Array.from({ length: SHARDS }, (_, i) => ({
    name: `tests-${i + 1}`,
    minutes: 25,
    commands: [`npx vitest run --shard=${i + 1}/${SHARDS}`],
  })),
  {
    name: 'fuzz-masks',
    minutes: 20,
    missing: needs('g++'),
    commands: ['nice -n 19 node tools/fuzz-masks.mjs --seed "$ROCMFORGE_SEED"'],
  },
  { name: 'clients', minutes: 20, commands: ['node bench/peers/clients.mjs'] },
  { name: 'kernel-mutations', minutes: 60, commands: ['node tools/mutate-kernels.mjs --tier full'] },
  ...Array.from({ length: MUTATION_SHARDS }, (_, i) => ({
    name: `typescript-mutations-${i + 1}`,
    minutes: 60,
    commands: [`node tools/mutate-typescript.mjs --tier full --shard ${i + 1}/${MUTATION_SHARDS}`],
  })),
  ...Array.from({ length: EMULATOR_SHARDS }, (_, i) => ({
    name: `emulator-${i + 1}`,
    minutes: 45,
    missing: missingEmulator,
    commands: [
      codeObjects('--twins'),
      `npx vitest run -c vitest.emulator.config.ts --shard=${i + 1}/${EMULATOR_SHARDS}`,
    ],
  })),
  {
    name: 'emulator-models',
    minutes: 30,
    missing: missingEmulator,
    commands: [codeObjects(''), 'node tools/verify-emulator.mjs'],
  },
];
