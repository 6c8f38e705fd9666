import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { UNREAD } from '../../src/executor/load/counting-device.js';
import { countingGpu } from '../../src/executor/load/fit.js';
import { loadOpened } from '../../src/executor/load/loaded-model.js';
import { rehearseLoad } from '../../src/executor/load/rehearsal.js';
import { ModelFiles } from '../../src/shared/gguf/model-files.js';
import { decodeRehearsal, encodeRehearsal } from '../../src/shared/rehearsal.js';
import { writeRandomFamily } from '../support/random-model.js';

const limits = {
  kvCacheType: 'f16',
  maxContext: 64,
  maxSequences: 4,
  maxStepTokens: 32,
  kvMemoryBytes: 0,
  fingerprint: '',
} as const;
const never = () => false;
let gpu: { readonly target: string; readonly device: { readonly kind: 'cuda'; readonly kernels: string } };

beforeAll(() => {
  const kernels = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-rehearsal-'));
  mkdirSync(path.join(kernels, 'sm_90'));
  writeFileSync(path.join(kernels, 'sm_90', 'manifest.json'), '{"files": []}');
  gpu = { target: 'sm_90', device: { kind: 'cuda', kernels } };
});

it.each(['llama', 'qwen35', 'qwen3moe'] as const)('names the kernels that the load of %s takes', async (family) => {
  const file = writeRandomFamily(family, { type: 'F16' });
  const { model } = new ModelFiles(file);
  const load = { path: file, ...limits };
  const opened = { model, content: UNREAD, fingerprint: '' };
  const loaded = await loadOpened(countingGpu('', 'sm_90', 2 ** 36).devices(), opened, load, () => undefined);
  const wanted = new Set(loaded.forward.kernels);
  loaded.release();
  expect(wanted.size).toBeGreaterThan(10);
  expect(new Set(await rehearseLoad(load, gpu, never))).toEqual(wanted);
});

it('ends at a tensor once the load itself is due, and is no failure where nothing can be loaded', async () => {
  const path = writeRandomFamily('llama', { type: 'F16' });
  let asked = 0;
  const isOver = () => ++asked === 3;
  expect(await rehearseLoad({ path, ...limits }, gpu, isOver)).toEqual([]);
  // Some tensors are read at once.
  expect(asked).toBeLessThan(new ModelFiles(path).model.tensors.size);
  expect(await rehearseLoad({ path: `${path}.none`, ...limits }, gpu, never)).toEqual([]);
  expect(await rehearseLoad({ path, ...limits }, { ...gpu, target: 'sm_10' }, never)).toEqual([]);
});

it('is one line for a standard input', () => {
  const load = { path: '/models/a b\n.gguf', maxContext: 4096, maxSequences: 8 };
  const line = encodeRehearsal('sm_90', load);
  expect(line).not.toContain('\n');
  expect(decodeRehearsal(line)).toMatchObject({ target: 'sm_90', load });
});
