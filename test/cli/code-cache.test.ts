import { cpSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { cacheFile, ProgramScript } from '../../src/cli/program-script.js';
import { packageRoot, packageVersion } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const CODES = ['executor', 'gateway', 'other'] as const;
const bundle = path.join(packageRoot, 'dist', 'bundle');

/** The package's program and its caches, in a folder of their own. @returns that of the bundle */
function copied(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const into = path.join(folder, 'dist', 'bundle');
  mkdirSync(into, { recursive: true });
  for (const file of ['program.cjs', ...CODES.map((code) => `${code}.cache`)])
    cpSync(path.join(bundle, file), path.join(into, file));
  for (const file of ['main.js', 'program-script.js'])
    cpSync(path.join(packageRoot, 'dist', 'cli', file), path.join(folder, 'dist', 'cli', file));
  cpSync(path.join(packageRoot, 'package.json'), path.join(folder, 'package.json'));
  symlinkSync(path.join(packageRoot, 'node_modules'), path.join(folder, 'node_modules'));
  return into;
}

function flip(file: string, at: number): void {
  const content = readFileSync(file);
  content[at]! ^= 0x10;
  writeFileSync(file, content);
}

/** Changes the line feed at the end of a file. */
function lastByte(file: string, byte: string): void {
  const content = readFileSync(file, 'utf8');
  expect(content.at(-1)).toBe('\n');
  writeFileSync(file, content.slice(0, -1) + byte);
}

describe('the code cache that the build writes', () => {
  // Each in its own process: V8 takes any cache for a program that it has compiled before.
  it.each(CODES)('is taken for commands of an %s', async (code) => {
    const tool = path.join(packageRoot, 'tools', 'cache-code.mjs');
    const { code: status } = await runProgram(process.execPath, [tool, '--check', code]);
    expect(status, 'run "npm run build"').toBe(0);
  });

  const DAMAGE: readonly (readonly [string, (file: string, folder: string) => void])[] = [
    ['whose data is damaged', (file) => flip(file, 500_000)],
    ['whose hash is damaged', (file) => flip(file, 3)],
    ['that is cut short', (file) => truncateSync(file, 100_000)],
    ['that is empty', (file) => truncateSync(file, 0)],
    ['of another program of the same length', (_, folder) => lastByte(path.join(folder, 'program.cjs'), ' ')],
  ];
  it.each(DAMAGE)('is not given to V8 if it is one %s', (_, damage) => {
    const folder = copied();
    expect(new ProgramScript('other', folder).isCached).toBe(true);
    damage(cacheFile('other', folder), folder);
    expect(new ProgramScript('other', folder).isCached).toBe(false);
  });

  it('is not needed: a command runs with a damaged one', async () => {
    const folder = copied();
    flip(cacheFile('other', folder), 500_000);
    const main = path.join(path.dirname(folder), 'cli', 'main.js');
    expect(await runProgram(process.execPath, [main, '--version'])).toEqual({
      ...{ code: 0, stdout: `${packageVersion}\n`, stderr: '' },
    });
  });
});
