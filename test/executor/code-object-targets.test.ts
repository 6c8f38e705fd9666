import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { targetFor } from '../../src/executor/load/open-device.js';

describe('the code objects that an architecture runs', () => {
  const folders: string[] = [];
  /** A folder of built targets. */
  function built(...targets: string[]): string {
    const root = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    folders.push(root);
    for (const target of targets) mkdirSync(path.join(root, target));
    return root;
  }
  afterAll(() => {
    for (const folder of folders) rmSync(folder, { recursive: true });
  });

  it.each([
    ['gfx1100', ['gfx1100', 'gfx11-generic'], 'gfx1100'],
    ['gfx1103', ['gfx1100', 'gfx11-generic', 'gfx12-generic'], 'gfx11-generic'],
    ['gfx1153', ['gfx11-generic'], 'gfx11-generic'],
    ['gfx1201', ['gfx1200', 'gfx12-generic'], 'gfx12-generic'],
    ['sm_92', ['sm_90', 'sm_100'], 'sm_90'],
  ])('%s of %j: %s', (architecture, targets, expected) => {
    expect(targetFor(architecture, built(...targets))).toBe(expected);
  });

  it.each([
    // LLVM's gfx12-generic does not include this one.
    ['gfx1250', ['gfx12-generic', 'gfx1200']],
    ['gfx1170', ['gfx11-generic']],
    ['gfx1031', ['gfx1030']],
    ['gfx908', ['gfx906', 'gfx90a']],
    ['sm_89', ['sm_90']],
  ])('none for %s of %j', (architecture, targets) => {
    expect(() => targetFor(architecture, built(...targets))).toThrow(`no kernels for ${architecture} in`);
  });
});
