import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { openDevice } from '../../src/executor/device/open-device.js';
import { loadModel } from '../../src/executor/model/loaded-model.js';
import { tinyLlama } from '../support/gguf-builder.js';

const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'refused.gguf');

async function load(builder: ReturnType<typeof tinyLlama>) {
  writeFileSync(output, builder.build());
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0 };
  const options = { path: output, kvCacheType: 'f16', fingerprint: '', ...limits } as const;
  return loadModel(openDevice({ kind: 'host', threads: 1 }), options, () => undefined);
}

describe('a model that cannot run is refused', () => {
  it.each(['glm4', 'gpt2', 'mamba'])('by the name of its architecture: %s', async (architecture) => {
    const keys = ['block_count', 'context_length', 'embedding_length', 'feed_forward_length', 'attention.head_count'];
    const values = Object.fromEntries(keys.map((key, i) => [`${architecture}.${key}`, [2, 128, 64, 160, 4][i]!]));
    const builder = tinyLlama({
      'general.architecture': architecture,
      ...values,
      [`${architecture}.attention.layer_norm_rms_epsilon`]: 1.5,
    });
    await expect(load(builder)).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`architecture ${architecture} is not built yet`),
    });
  });

  it.each(['Q8_1', 'IQ4_NL', 'MXFP4'] as const)('by tensor and type: %s', async (type) => {
    const norm = { dims: [64] };
    const builder = tinyLlama()
      .tensor('blk.0.attn_norm.weight', norm)
      .tensor('blk.0.attn_q.weight', { type, dims: [64, 64] });
    await expect(load(builder)).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`tensor blk.0.attn_q.weight is ${type}`),
    });
  });
});
