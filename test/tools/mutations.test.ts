import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { distancesFrom, importersOf, mutationsOf } from '../../tools/typescript-mutations.mjs';

// tools/mutate-typescript.mjs takes too long for every run; that each mistake still has its place is seen at once.
const mutations = mutationsOf(packageRoot);

describe('mistakes in TypeScript', () => {
  it('are ten of each of five areas, and one at least for each weakness that an attack has found', () => {
    const areas = mutations.map(({ name }) => name.split('/')[0]);
    const counts = Object.fromEntries(areas.map((area) => [area, areas.filter((other) => other === area).length]));
    expect(counts).toEqual({ encoders: 10, executor: 10, robustness: 28, scheduler: 10, servers: 10, text: 10 });
    const rows = new Set(mutations.flatMap(({ name }) => /^robustness\/([a-z])-/.exec(name)?.[1] ?? []));
    expect([...rows].join('')).toBe('abcdefghijklmnopqrstuvw');
  });

  it.each(mutations)('$name applies, and says what a user sees', ({ file, says }) => {
    expect(says).toMatch(/^[A-Z].{20,}\.$/);
    // The checkout may lie in another repository, whose paths are not ours.
    const env = { ...process.env, GIT_CEILING_DIRECTORIES: path.dirname(packageRoot) };
    const { status, stderr } = spawnSync('git', ['apply', '--check', file], {
      cwd: packageRoot,
      env,
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    expect(status).toBe(0);
  });

  it('each change one source file, and no other text than that', () => {
    for (const { file, target } of mutations) {
      const files = readFileSync(file, 'utf8').match(/^\+\+\+ .+$/gm);
      expect(files, file).toEqual([`+++ b/${target}`]);
      expect(target).toMatch(/^src\/.+\.ts$/);
    }
  });
});

describe('tests that a change may concern', () => {
  const importers = importersOf(packageRoot);

  it('begin with those that import the file', () => {
    const distances = distancesFrom(importers, 'src/gateway/trust/jwt.ts');
    expect(distances.get('test/gateway/trust/jwt.test.ts')).toBe(1);
    expect(distances.get('test/gateway/trust/trust.test.ts')).toBe(2);
    expect(distances.has('test/executor/slots.test.ts')).toBe(false);
  });

  it('are those, too, that run it in a thread or a process', () => {
    const inThread = distancesFrom(importers, 'src/gateway/matching/grammar-worker.ts');
    expect(inThread.has('test/gateway/matching/matchers.test.ts')).toBe(true);
    const inProcess = distancesFrom(importers, 'src/executor/serve/service.ts');
    expect(inProcess.has('test/e2e/command-line.test.ts')).toBe(true);
  });
});
