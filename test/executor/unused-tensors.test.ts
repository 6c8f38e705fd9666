import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { formatInspectReport, inspectModel } from '../../src/cli/inspect/inspect.js';
import { logitsHashes } from '../../src/cli/verify/invariance.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { BuilderValue, GgufBuilder } from '../support/gguf-builder.js';
import { randomModel } from '../support/random-model.js';
import type { RandomModelOptions } from '../support/random-model-options.js';

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const device = openDevice({ kind: 'host' });

/** @param name of the file, which messages name */
function write(builder: GgufBuilder, name = 'unused.gguf'): string {
  const file = path.join(folder, name);
  writeFileSync(file, builder.build());
  return file;
}

function load(builder: GgufBuilder, name?: string) {
  const limits = { maxContext: 320, maxSequences: 2, maxStepTokens: 320, kvMemoryBytes: 0, fingerprint: '' };
  return loadModel(device, { path: write(builder, name), kvCacheType: 'f32', ...limits }, () => undefined);
}

const NEXTN = ['eh_proj.weight', 'embed_tokens.weight', 'enorm.weight', 'hnorm.weight', 'shared_head_head.weight'];

/** A model of three blocks as a converter writes one whose third only predicts; its tensors are zeros. */
function predicting(options: RandomModelOptions = {}, keys: Readonly<Record<string, BuilderValue>> = {}): GgufBuilder {
  const plain = randomModel().read();
  const third = [...plain.tensors.values()].filter(({ name }) => name.startsWith('blk.1.'));
  return randomModel({
    ...options,
    metadata: { 'llama.block_count': 3, 'llama.nextn_predict_layers': 1, ...keys },
    tensors: {
      ...Object.fromEntries(third.map(({ name, dims }) => [name.replace('blk.1.', 'blk.2.'), { dims }])),
      ...Object.fromEntries(NEXTN.map((name) => [`blk.2.nextn.${name}`, { dims: [64] }])),
      ...options.tensors,
    },
  });
}

const IMAGES = /a tower that encodes images or sound/;
const PREDICTION = /layers behind the last that predict tokens beyond the next one/;

describe('what a model file has beside its text model', () => {
  it('layers that only predict are not computed: the logits are those of the model without them', async () => {
    const [plain, whole] = [await load(randomModel(), 'plain.gguf'), await load(predicting())];
    expect(whole.weightBytes).toBe(plain.weightBytes);
    expect(whole.forward.model.layers).toBe(2);
    expect(await logitsHashes(device, whole, 300)).toEqual(await logitsHashes(device, plain, 300));
  });

  it('and may have been cut off', async () => {
    const metadata = { 'llama.block_count': 3, 'llama.nextn_predict_layers': 1 };
    expect((await load(randomModel({ metadata }))).forward.model.layers).toBe(2);
  });

  it('inspect counts it, says why it is not used, and marks each tensor', () => {
    const report = inspectModel(
      write(predicting({ tensors: { 'v.blk.0.ln1.weight': { dims: [16] }, 'mm.0.weight': { dims: [16, 64] } } })),
    );
    expect(report).toMatchObject({ problem: null, model: { layers: 2, predictionLayers: 1 } });
    expect(report.unused.map(({ why, tensors }) => [why, tensors.length])).toEqual([
      [expect.stringMatching(PREDICTION), 9 + NEXTN.length],
      [expect.stringMatching(IMAGES), 2],
    ]);
    const text = formatInspectReport(report);
    expect(text).toMatch(/^layers +2 and 1 that only predict, hidden 64, ffn 128$/m);
    expect(text).toMatch(/^not used +2 tensors \(4\.1 KiB\): a tower that encodes images or sound/m);
    expect(text).toMatch(/^mm\.0\.weight .* not used$/m);
    expect(text).toMatch(/^blk\.2\.attn_q\.weight .* not used$/m);
    expect(text).not.toMatch(/^blk\.1\..* not used$/m);
  });

  it.each(['v.position_embd.weight', 'mm.a.mlp.1.weight', 'a.conv1d.0.weight', 'resampler.query'])(
    'takes %s',
    async (name) => {
      const model = await load(randomModel({ tensors: { [name]: { dims: [8] } } }));
      expect(model.weightBytes).toBeGreaterThan(0);
    },
  );
});

describe('what only looks like it is refused by name', () => {
  it.each([
    'vision.patch_embd.weight',
    'mmproj.weight',
    'blk.0.nextn_norm.weight',
    // Tensor of a layer that is computed, which would be one that predicts.
    'blk.1.nextn.eh_proj.weight',
    'nextn.eh_proj.weight',
    // A map of eagle3's drafted tokens and its joining matrix; a drafting head of medusa's.
    'd2t.weight',
    'fc.weight',
    'medusa.0.weight',
  ])('%s', async (name) => {
    await expect(load(randomModel({ tensors: { [name]: { dims: [8] } } }))).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`nothing here uses tensor ${name} [8]`),
      metadata: { tensor: name },
    });
  });

  it('a last layer that is said to predict and has nothing to predict with', async () => {
    await expect(load(randomModel({ metadata: { 'llama.nextn_predict_layers': 1 } }))).rejects.toMatchObject({
      reason: 'GGUF_INVALID',
      message: expect.stringContaining('"llama.nextn_predict_layers" is 1, but block 1 has no tensor blk.1.nextn.*'),
    });
  });

  it('a layer that predicts, of which nothing is said', async () => {
    await expect(load(predicting({}, { 'llama.nextn_predict_layers': 0 }))).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('nothing here uses tensor blk.2.nextn.eh_proj.weight'),
    });
  });

  it.each([2, 3, 1.5, -1])('%f layers of two that predict', async (count) => {
    const metadata = { 'llama.nextn_predict_layers': count };
    await expect(load(randomModel({ metadata }))).rejects.toMatchObject({ reason: 'GGUF_INVALID' });
  });

  it('a file whose blocks are neither all nor those that are computed', async () => {
    await expect(
      load(predicting({}, { 'llama.block_count': 5, 'llama.nextn_predict_layers': 1 })),
    ).rejects.toMatchObject({
      reason: 'GGUF_INVALID',
      message: expect.stringContaining('"llama.block_count" is 5, but the file has tensors of 3 blocks'),
    });
  });

  it.each(['eagle3', 'dflash', 'gemma4_assistant'])('a draft model, by its architecture: %s', async (architecture) => {
    await expect(load(randomModel({ metadata: { 'general.architecture': architecture } }))).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`architecture ${architecture} is not supported`),
    });
  });
});
