import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';

/** Benchmarks that README and docs name, and the beginning of the comment that explains each. */
const BENCHMARKS: readonly (readonly [file: string, beginning: string])[] = [
  ['bench/gpu/tables.mjs', 'Every row of the GPU tables of docs/evidence/gpu-speed.md'],
  ['bench/gpu/grid.mjs', 'The grid of docs/evidence/gpu-speed.md'],
  ['bench/peers/served.mjs', 'Load on an OpenAI-compatible HTTP server'],
  ['bench/peers/compare.mjs', 'Compares ROCmForge with llama.cpp'],
  ['bench/peers/clients.mjs', 'Tries the HTTP API with the clients'],
];

it.each(BENCHMARKS)('%s --help prints its usage', (file, beginning) => {
  const help = execFileSync(process.execPath, [path.join(packageRoot, file), '--help'], { encoding: 'utf8' });
  expect(help.startsWith(beginning)).toBe(true);
  expect(help).toMatch(new RegExp(`^ +node .*${path.basename(file)}`, 'm'));
  expect(help).not.toMatch(/^(\/\/| \*)/m);
});

it.each(BENCHMARKS)('%s names an option that it does not have, with its usage', (file, beginning) => {
  const { status, stderr } = spawnSync(process.execPath, [path.join(packageRoot, file), '--nonsense'], {
    encoding: 'utf8',
  });
  expect(status).toBe(2);
  expect(stderr).toContain(`${path.basename(file)}: Unknown option '--nonsense'`);
  expect(stderr).toContain(beginning);
});

it('a benchmark names an option that is missing', () => {
  const grid = path.join(packageRoot, 'bench/gpu/grid.mjs');
  const { status, stderr } = spawnSync(process.execPath, [grid, '--table'], { encoding: 'utf8' });
  expect([status, stderr.split('\n')[0]]).toEqual([2, 'grid.mjs: --out is missing']);
});

it('every command of the README is tried by the newcomer’s walkthrough', () => {
  const walkthrough = path.join(packageRoot, 'tools/try-newcomer.mjs');
  const { status, stdout, stderr } = spawnSync(process.execPath, [walkthrough, '--list'], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  expect(Number(/knows (\d+) commands/.exec(stdout)?.[1])).toBeGreaterThan(10);
});
