import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { codeObjectFindings } from '../../../src/cli/doctor/code-objects.js';

it('doctor warns of code objects whose build was not finished, and fails if the card needs them', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  mkdirSync(path.join(folder, 'gfx1100'));
  writeFileSync(path.join(folder, 'gfx1100', 'manifest.json'), '{"files": [{}, {}]}');
  mkdirSync(path.join(folder, 'sm_90'));
  const fix = 'npm run build:kernels -- --target sm_90';
  const warning = {
    check: 'code objects',
    state: 'warning',
    detail: 'sm_90: incomplete build: manifest.json does not exist',
    fix,
  };
  const ok = { check: 'code objects', state: 'ok', detail: 'of gfx1100 (2 files)' };
  expect(codeObjectFindings([], folder)).toEqual([ok, warning]);
  writeFileSync(path.join(folder, 'sm_90', 'manifest.json'), '{');
  expect(codeObjectFindings([], folder)[1]).toMatchObject({
    state: 'warning',
    detail: expect.stringMatching(/^sm_90: manifest\.json cannot be read: /),
  });
  const card = { target: 'sm_90' } as Parameters<typeof codeObjectFindings>[0][number];
  expect(codeObjectFindings([card], folder).at(-1)).toMatchObject({
    check: 'code objects for sm_90',
    state: 'failed',
    fix,
  });
});
