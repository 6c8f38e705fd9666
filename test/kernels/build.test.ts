import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';

// Two levels of the host compile every source.
const LEVELS = 2;

describe('the build of the kernels compiles', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-build-'));
  const kernels = path.join(folder, 'kernels');
  beforeAll(() => {
    cpSync(path.join(packageRoot, 'kernels'), kernels, { recursive: true });
    build();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** @returns how many objects were compiled; 0 when nothing was to be done */
  function build(): number {
    const only = 'scale.hip,rope.hip,slot_write.hip';
    const options = ['--target', 'host', '--only', only, '--kernels', kernels, '--output', folder];
    const tool = path.join(packageRoot, 'tools', 'build-kernels.mjs');
    const output = execFileSync(process.execPath, [tool, ...options], { encoding: 'utf8' });
    return Number(/(\d+) compiled/.exec(output)?.[1] ?? 0);
  }
  // Files of an earlier run of this test would not be compiled.
  const touch = (file: string) => appendFileSync(path.join(kernels, file), `// ${folder}\n`);

  it('nothing when nothing has changed', () => {
    expect(build()).toBe(0);
  });

  it('one object a level after one source was touched', () => {
    touch('scale.hip');
    expect(build()).toBe(LEVELS);
  });

  it('the users of a header alone after it was touched', () => {
    touch('forge/rope.h');
    expect(build()).toBe(LEVELS);
  });
});
