import { expect, it } from 'vitest';
import { UNREAD } from '../../src/executor/load/counting-device.js';
import { countingGpu } from '../../src/executor/load/fit.js';
import { loadOpened } from '../../src/executor/load/loaded-model.js';
import { rehearse } from '../../src/executor/serve/rehearsal.js';
import { ModelFiles } from '../../src/lib/gguf/model-files.js';
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
const gpu = { target: 'sm_90', count: 1 };

it.each(['llama', 'qwen35', 'qwen3moe', 'gemma3'] as const)(
  'runs steps of %s, and names the kernels that its load takes',
  async (family) => {
    const file = writeRandomFamily(family, { type: 'F16' });
    const { model } = new ModelFiles(file);
    const load = { path: file, ...limits };
    const opened = { model, content: UNREAD, fingerprint: '' };
    const loaded = await loadOpened(countingGpu('', 'sm_90', 2 ** 36).devices(), opened, load, () => undefined);
    const wanted = new Set(loaded.forward.kernels);
    loaded.release();
    expect(wanted.size).toBeGreaterThan(10);
    expect(new Set(await rehearse(load, gpu, never))).toEqual(wanted);
  },
);

it('ends at a tensor once the load itself is due, and fails as the load does', async () => {
  const path = writeRandomFamily('llama', { type: 'F16' });
  let asked = 0;
  const isOver = () => ++asked === 3;
  await expect(rehearse({ path, ...limits }, gpu, isOver)).rejects.toThrow('the load itself is due');
  // Some tensors are read at once.
  expect(asked).toBeLessThan(new ModelFiles(path).model.tensors.size);
  const missing = rehearse({ path: `${path}.none`, ...limits }, gpu, never);
  await expect(missing).rejects.toMatchObject({ reason: 'MODEL_FILE_UNREADABLE' });
});

it('is one line for a standard input', () => {
  const load = { path: '/models/a b\n.gguf', maxContext: 4096, maxSequences: 8 };
  const line = encodeRehearsal('sm_90', load);
  expect(line).not.toContain('\n');
  expect(decodeRehearsal(line)).toMatchObject({ target: 'sm_90', load });
});
