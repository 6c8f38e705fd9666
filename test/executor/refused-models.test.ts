import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { MATRIX_TYPES } from '../../src/executor/model/tensors.js';
import { readServedModel } from '../../src/gateway/request/served-model.js';
import { TENSOR_TYPES, type TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { fakeGpu } from '../doubles/native-device.js';
import type { BuilderValue, GgufBuilder } from '../support/gguf-builder.js';
import { randomModel } from '../support/random-model.js';
import type { RandomModelOptions } from '../support/random-model-options.js';

const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'refused.gguf');

async function load(builder: GgufBuilder) {
  writeFileSync(output, builder.build());
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0 };
  const options = { path: output, kvCacheType: 'f16', fingerprint: '', ...limits } as const;
  return loadModel(fakeGpu(), options, () => undefined);
}

/** Verdict of the gateway before it starts an executor. */
function serve(builder: GgufBuilder) {
  writeFileSync(output, builder.build());
  return readServedModel(output, {});
}

const withTensor = (name: string, dims: readonly number[], options: RandomModelOptions = {}) =>
  randomModel({ ...options, tensors: { [name]: { dims } } });

describe('a model that cannot run is refused', () => {
  it.each(['starcoder', 'gpt2', 'mamba', 'toString'])('by the name of its architecture: %s', async (architecture) => {
    const builder = randomModel({ metadata: { 'general.architecture': architecture } });
    const refusal = {
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`architecture ${architecture} is not supported`),
    };
    await expect(load(builder)).rejects.toMatchObject(refusal);
    expect(() => serve(builder)).toThrow(expect.objectContaining(refusal));
  });

  it('gptneox that does not say whether attention and MLP are parallel', async () => {
    const builder = randomModel({ family: 'gptneox', metadata: { 'gptneox.use_parallel_residual': undefined } });
    await expect(load(builder)).rejects.toMatchObject({
      reason: 'GGUF_INVALID',
      message: expect.stringContaining('"gptneox.use_parallel_residual" is missing'),
    });
  });

  it('nemotron whose heads have another width than the residual stream: its converter miscounts what is rotated', async () => {
    const builder = randomModel({ family: 'nemotron', headDim: 64 });
    await expect(load(builder)).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('"nemotron.attention.key_length" is 64'),
    });
  });

  const computed: readonly string[] = MATRIX_TYPES;
  const others = (Object.keys(TENSOR_TYPES) as TensorTypeName[]).filter((type) => !computed.includes(type));

  it('for every type of this list', () => {
    expect(others).toEqual([
      ...['Q8_1', 'Q8_K', 'I8', 'I16', 'I32', 'I64', 'F64', 'TQ1_0', 'TQ2_0', 'NVFP4', 'Q1_0', 'Q2_0'],
    ]);
  });

  it.each(others)('by tensor and type: %s', async (type) => {
    const builder = randomModel({ layers: 1, hidden: 256 }).retype('blk.0.attn_q.weight', type);
    await expect(load(builder)).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`tensor blk.0.attn_q.weight is ${type}, which is not supported`),
      metadata: { tensor: 'blk.0.attn_q.weight' },
    });
  });

  it('when it is whole, it is not', async () => {
    for (const architecture of ['llama', 'qwen2'] as const) {
      (await load(randomModel({ family: architecture }))).release();
      serve(randomModel({ family: architecture })).file.close();
    }
  });

  // Properties that llama.cpp computes with, or refuses; each was ignored once.
  it.each<[string, readonly number[], RandomModelOptions['family']]>([
    ['blk.0.attn_q.scale', [1], 'llama'],
    ['blk.0.attn_q_norm.weight', [16], 'llama'],
    ['blk.0.attn_k_norm.weight', [16], 'qwen2'],
    ['blk.0.attn_q_norm.weight', [16, 4], 'starcoder2'],
    ['blk.0.attn_sinks.weight', [4], 'llama'],
    ['blk.1.post_attention_norm.weight', [64], 'llama'],
    ['blk.0.ffn_gate_inp.weight', [64, 8], 'llama'],
    ['blk.0.ffn_gate_exps.weight', [64, 128, 8], 'llama'],
    ['blk.0.ffn_gate_up_exps.weight', [64, 256, 8], 'llama'],
    ['blk.0.ffn_gate_up_exps.bias', [256, 8], 'llama-experts'],
    ['blk.0.ssm_conv1d.weight', [4, 128], 'granite'],
    ['blk.0.ffn_up_shexp.weight', [64, 128], 'granite'],
    ['token_types.weight', [64, 2], 'llama'],
    ['tensor_of_next_year', [1], 'qwen2'],
  ])('for a tensor that nothing reads: %s %j (%s)', async (name, dims, architecture) => {
    await expect(load(withTensor(name, dims, { family: architecture ?? 'llama' }))).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining(`nothing here uses tensor ${name} [${dims.join(', ')}]`),
      metadata: { tensor: name },
    });
  });

  it.each<[string, readonly number[], string]>([['rope_factors_long.weight', [8], 'rope_factors_short.weight']])(
    'for %s without what belongs to it',
    async (name, dims, missing) => {
      await expect(load(withTensor(name, dims))).rejects.toMatchObject({
        reason: 'GGUF_INVALID',
        message: expect.stringContaining(`holds no tensor ${missing}`),
      });
    },
  );

  it('for a missing norm before an MLP, except of stablelm, whose block is parallel then', async () => {
    const without = (family: 'starcoder2' | 'stablelm') =>
      ['weight', 'bias'].reduce((builder, kind) => builder.without(`blk.0.ffn_norm.${kind}`), randomModel({ family }));
    await expect(load(without('starcoder2'))).rejects.toThrow('holds no tensor blk.0.ffn_norm.weight');
    (await load(without('stablelm'))).release();
  });

  it.each([
    ['blk.0.attn_rot_embd', [8]],
    ['v.patch_embd.weight', [16, 16]],
    ['mm.0.weight', [64, 64]],
  ])('but not for one that is known to be of no use: %s', async (name, dims) => {
    const plain = await load(randomModel());
    const model = await load(withTensor(name, dims));
    // And it takes no memory.
    expect(model.weightBytes).toBe(plain.weightBytes);
  });

  it.each<[string, BuilderValue]>([
    ['attention.scale', 0.5],
    ['expert_count', 8],
    ['rope.scaling.type', 'ntk'],
    ['block_count', 2 ** 32 - 1],
    ['attention.layer_norm_rms_epsilon', 1e38],
  ])('by the gateway already, before there is an executor: %s', (key, value) => {
    const metadata = { 'llama.expert_used_count': 0, 'llama.rope.scaling.factor': 2, [`llama.${key}`]: value };
    const used = key === 'expert_count' ? { 'llama.expert_used_count': 2 } : {};
    expect(() => serve(randomModel({ metadata: { ...metadata, ...used } }))).toThrow(
      expect.objectContaining({ message: expect.stringContaining(`"llama.${key}"`) }),
    );
  });

  it('by a type, for shapes that no kernel takes', async () => {
    const metadata = {
      'llama.attention.head_count': 1,
      'llama.attention.head_count_kv': 1,
      'llama.attention.key_length': 64,
    };
    // One key head of 64 where the file has two of 16.
    await expect(load(randomModel({ metadata }))).rejects.toMatchObject({ reason: 'GGUF_INVALID' });
    const odd = { 'llama.attention.key_length': 4, 'llama.attention.value_length': 4 };
    const heads = { 'llama.attention.head_count': 16, 'llama.attention.head_count_kv': 8 };
    await expect(load(randomModel({ metadata: { ...odd, ...heads } }))).rejects.toMatchObject({
      reason: 'MODEL_UNSUPPORTED',
      message: expect.stringContaining('head_dim 4 is not supported'),
    });
  });
});
