import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { allContracts } from '../../src/executor/kernels/index.js';
import { packageRoot } from '../../src/shared/package.js';
import { MUTATIONS } from '../../tools/kernel-mutations.mjs';

const sources = allContracts.map(({ source }) => path.basename(source));

// tools/mutate-kernels.mjs takes too long for every run; that each mistake still has its place is seen at once.
it.each(MUTATIONS)('there is a place to plant "$name"', ({ file, from, defaultTest, ...own }) => {
  expect(readFileSync(path.join(packageRoot, 'kernels', file), 'utf8')).toContain(from);
  for (const { test, with: others = [], launches = [test, ...others] } of defaultTest ? [own, defaultTest] : [own]) {
    expect(existsSync(path.join(packageRoot, 'test', 'kernels', `${test}.test.ts`))).toBe(true);
    for (const kernel of launches) expect(sources, kernel).toContain(`${kernel}.hip`);
  }
});
