import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { Device } from '../../src/executor/device/device.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { FakeNativeDevice } from '../doubles/native-device.js';

class PlannedDevice extends FakeNativeDevice {
  override readonly properties = { description: 'no device', wave: 32, block: 256 };
}

// They read what the launch before waited for before they wait themselves.
it('launches experts of one row one directly behind the other', async () => {
  const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'experts.gguf');
  const experts = { count: 8, used: 4, ffn: 256 };
  const shape = { ...SHAPES.tiny!, architecture: 'llama', hidden: 1024, heads: 8, headDim: 128, experts } as const;
  synth({ shape, type: 'Q8_0', output });
  const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const device = new Device(new PlannedDevice(2 ** 40), 'cuda', 'sm_90');
  const model = await loadModel(device, { ...limits, path: output, kvCacheType: 'f16' }, () => undefined);
  const { kernels } = model.forward;
  const starts = kernels.flatMap((kernel, i) => (kernel === 'router_scores_normed' ? [i] : []));
  expect(starts.length).toBe(model.forward.model.layers);
  for (const i of starts) expect(kernels.slice(i + 1, i + 3)).toEqual(['experts_swiglu_q8', 'experts_summed_q8']);
  expect(kernels.filter((kernel) => /^experts_s/.test(kernel)).length).toBe(2 * starts.length);
  model.release();
});

// Launches that multiply experts in a step of one row: gate and up are one, down is another.
it.each([
  ['a GPU', 'hip', 'double', /^matmul_packed_experts_/],
  ['Hopper', 'cuda', 'sm_90', /^linear_experts_one_/],
] as const)('%s multiplies gate and up of experts at once', async (_name, kind, target, products) => {
  const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'experts.gguf');
  const experts = { count: 8, used: 2, ffn: 256 };
  const parts = { qkNorm: 'head' } as const;
  synth({ shape: { ...SHAPES.tiny!, architecture: 'qwen3moe', parts, experts }, type: 'Q4_K_M', output });
  const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0, fingerprint: '' };
  const device = new Device(new PlannedDevice(2 ** 40), kind, target);
  const model = await loadModel(device, { ...limits, path: output, kvCacheType: 'f16' }, () => undefined);
  const launched = model.forward.kernels.filter((kernel) => products.test(kernel));
  const forms = new Set(launched.map((kernel) => kernel.replace(/_(q\d|four|five|six|eight).*$/, '')));
  // One a form, of each layer's two products.
  expect(launched.length / forms.size).toBe(2 * model.forward.model.layers);
  model.release();
});
