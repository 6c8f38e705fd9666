import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { GgufBuilder, typed } from './gguf-builder.js';
import { altupBlock, altupEnds } from './random-altup.js';
import { latentKeys, mambaKeys } from './random-blocks.js';
import { architectureOf, RANDOM_FAMILIES, type RandomFamilyName } from './random-families.js';
import type { RandomFamily, RandomLayer } from './random-family.js';
import type { RandomModelOptions } from './random-model-options.js';
import { gaussian, toHalves } from './random-weights.js';

/** Query and key heads for each size of a head. */
const HEADS = { 16: [4, 2], 64: [2, 1] } as const;
const WORDS = ['▁the', '▁a', '▁fox', '▁sea', '▁and', '▁ran', '▁to', '▁old', '▁wind', '▁sang', '▁long', '▁night', '.'];

/** Writes {@link randomModel}. @returns the file's path, in a temporary folder */
export function writeRandomModel(options: RandomModelOptions = {}): string {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'random.gguf');
  writeFileSync(file, randomModel(options).build());
  return file;
}

/** The model of a family that test/fixtures/families has llama.cpp's answers of. @returns the file's path */
export const writeRandomFamily = (family: RandomFamilyName, options: RandomModelOptions = {}): string =>
  writeRandomModel({ family, layers: layersOf(family), seed: 7, ...options });

/** As many as there are kinds of layers, and one more. */
export const layersOf = (family: RandomFamilyName): number =>
  (RANDOM_FAMILIES[family] as RandomFamily).layers ?? (family === 'gemma3' ? 7 : 4);

/**
 * A model of random weights that runs: a SentencePiece vocabulary of bytes and a few words, two layers, grouped KV heads. Its
 * text means nothing; the same seed gives the same file.
 */
export function randomModel(options: RandomModelOptions = {}): GgufBuilder {
  const { type = 'F32', contextLength = 512, layers = 2, family: familyName = 'llama', paddedRows = 0 } = options;
  const architecture = architectureOf(familyName);
  const { sizes } = options;
  const family: RandomFamily = { ...RANDOM_FAMILIES[familyName], ...sizes };
  const scaled: Readonly<Record<string, number>> = { ...family.scaled, ...options.scaled };
  const hidden = options.hidden ?? family.hidden ?? 64;
  const ffn = sizes?.ffn ?? (options.hidden === undefined ? 128 : 2 * hidden);
  const shape =
    options.headDim === undefined ? (family.heads ?? [4, 2, 16]) : [...HEADS[options.headDim], options.headDim];
  const [headsOf64, kvHeadsOf64, headDim] = shape as [number, number, number];
  const times = (options.hidden ?? 64) / 64;
  const [heads, kvHeads] = [headsOf64 * times, kvHeadsOf64 * times];
  const { layerShape } = family;
  const shapes =
    layerShape &&
    Array.from({ length: layers }, (_, layer): RandomLayer => {
      const own = layerShape(layer);
      return { ...own, kvHeads: own.kvHeads * times, ffn: own.ffn * times };
    });
  const inputs = family.layerInputs === undefined ? 0 : family.layerInputs * times;
  const random = gaussian(options.seed ?? 1);
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  // Every printable character stands for itself too, so that prompts are not spelled in bytes alone.
  const letters = ['▁', ...'abcdefghijklmnopqrstuvwxyz'];
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...WORDS, ...letters];
  const types = [2, 3, 3, ...bytes.map(() => 6), ...WORDS.map(() => 1), ...letters.map(() => 1)];
  for (let id = tokens.length; id < (sizes?.vocabulary ?? 0); id++) {
    tokens.push(`▁word${id}`);
    types.push(1);
  }
  const builder = new GgufBuilder({ name: 'random.gguf' });
  const { experts, nets, pattern = family.isApart ? 'M-*' : 'MM*' } = family;
  const latents = options.latents ?? family.latents;
  const mamba = family.mamba && { ...family.mamba, state: options.stateColumns ?? family.mamba.state };
  const wide = (width: number): number => (width * hidden) / (family.hidden ?? 64);
  const metadata = {
    'general.architecture': architecture,
    // llama.cpp looks for tokens of Phi 3 in a file of that name.
    'general.name': `random ${architecture === 'phi3' ? 'phi' : architecture}`,
    [`${architecture}.block_count`]: layers + Number(options.predicts ?? false),
    ...(options.predicts && { [`${architecture}.nextn_predict_layers`]: 1 }),
    [`${architecture}.context_length`]: contextLength,
    [`${architecture}.embedding_length`]: hidden,
    // Qwen 1 counts gate and up together.
    [`${architecture}.feed_forward_length`]: architecture === 'qwen' ? 2 * ffn : ffn,
    [`${architecture}.attention.head_count`]: heads,
    [`${architecture}.attention.head_count_kv`]: kvHeads,
    ...(latents === undefined &&
      heads * headDim !== hidden && {
        [`${architecture}.attention.key_length`]: headDim,
        [`${architecture}.attention.value_length`]: headDim,
      }),
    [`${architecture}.attention.layer_norm_rms_epsilon`]: typed.f32(1e-5),
    [`${architecture}.rope.freq_base`]: typed.f32(10_000),
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': typed.arrayOf(
      typed.f32,
      tokens.map((_, i) => -i),
    ),
    'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types),
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    ...(experts && {
      [`${architecture}.expert_count`]: experts.count,
      [`${architecture}.expert_used_count`]: experts.used,
      ...(wide(experts.ffn) !== ffn && { [`${architecture}.expert_feed_forward_length`]: wide(experts.ffn) }),
      ...(experts.sharedFfn !== undefined &&
        family.metadata?.expert_shared_count === undefined && {
          [`${architecture}.expert_shared_feed_forward_length`]: wide(experts.sharedFfn),
        }),
    }),
    ...(latents && latentKeys(architecture, latents)),
    ...(mamba && mambaKeys(architecture, mamba, times)),
    ...(nets && {
      [`${architecture}.ssm.conv_kernel`]: 4,
      [`${architecture}.ssm.state_size`]: nets.dim,
      [`${architecture}.ssm.group_count`]: nets.keyHeads * times,
      [`${architecture}.ssm.time_step_rank`]: nets.valueHeads * times,
      [`${architecture}.ssm.inner_size`]: nets.valueHeads * times * nets.dim,
      [`${architecture}.full_attention_interval`]: 4,
    }),
    ...Object.fromEntries(
      Object.entries(family.metadata ?? {}).map(([key, value]) => [`${architecture}.${key}`, value]),
    ),
    ...(shapes && {
      [`${architecture}.attention.head_count_kv`]: typed.arrayOf(
        typed.i32,
        shapes.map((own) => own.kvHeads),
      ),
      [`${architecture}.feed_forward_length`]: typed.arrayOf(
        typed.i32,
        shapes.map((own) => own.ffn),
      ),
      [`${architecture}.embedding_length_per_layer_input`]: inputs,
    }),
    ...family.fileMetadata,
    ...(options.chatTemplate !== undefined && { 'tokenizer.chat_template': options.chatTemplate }),
    ...options.metadata,
  };
  builder.setAll(metadata);
  const matrix = (
    name: string,
    columns: number,
    rows: number,
    scale = 1 / Math.sqrt(columns),
    padded = 0,
    experts?: number,
    diagonal = 0,
  ): void => {
    // Routers are f32 in every file.
    const own = kindOf(name) === 'ffn_gate_inp' ? 'F32' : type;
    const dims = [columns, rows + padded, ...(experts === undefined ? [] : [experts])];
    if (sizes !== undefined) {
      builder.tensor(name, { type: own, dims });
      return;
    }
    // Padding is large: whoever computes with it notices.
    const values = new Float32Array(columns * (rows + padded) * (experts ?? 1)).fill(3);
    const factor = scaled[name] ?? scaled[kindOf(name)] ?? 1;
    for (let i = 0; i < columns * rows * (experts ?? 1); i++) values[i] = random() * scale * factor;
    for (let row = 0; row < rows && diagonal !== 0; row++) values[row * columns + row]! += diagonal;
    if (options.swapsGateAndUp && kindOf(name) === 'ffn_up')
      values.set([...values.subarray(values.length / 2), ...values.subarray(0, values.length / 2)]);
    const data = own === 'F32' ? new Uint8Array(values.buffer) : new Uint8Array(toHalves(values).buffer);
    builder.tensor(name, { type: own, dims, data });
  };
  const vector = (name: string, length: number, mean: number, count?: number): void => {
    const data = new Uint8Array(
      Float32Array.from({ length: length * (count ?? 1) }, () => mean + 0.1 * random()).buffer,
    );
    builder.tensor(name, { type: 'F32', dims: count === undefined ? [length] : [length, count], data });
  };
  const norm = (name: string): void => {
    vector(name, hidden, family.means?.[kindOf(name)] ?? 1);
    if (family.biases?.includes(kindOf(name))) vector(name.replace(/weight$/, 'bias'), hidden, 0);
  };
  if (!family.hasOutputAlone) matrix('token_embd.weight', hidden, tokens.length, 1, paddedRows);
  const project = (name: string, columns: number, rows: number): void => {
    matrix(`${name}.weight`, columns, rows);
    if (family.biases?.includes(kindOf(name))) vector(`${name}.bias`, rows, 0);
  };
  const norms = family.norms ?? ['attn_norm', 'ffn_norm'];
  for (let layer = 0; layer < layers + Number(options.predicts ?? false); layer++) {
    const block = `blk.${layer}`;
    const own = shapes?.[layer] ?? { kvHeads, headDim, ffn };
    const { headDim: dim, isShared = false, hasNoValues = false } = own;
    const kvWidth = own.kvHeads * dim;
    if (norms.includes('attn_norm')) norm(`${block}.attn_norm.weight`);
    const isPrediction = layer === layers;
    if (isPrediction) {
      for (const name of ['enorm', 'hnorm', 'shared_head_norm']) norm(`${block}.nextn.${name}.weight`);
      // Of the next token more than of the hidden state: where a token alone decides what follows, it predicts that.
      matrix(`${block}.nextn.eh_proj.weight`, 2 * hidden, hidden, 0.05 / Math.sqrt(hidden), 0, undefined, 1);
    }
    const isNet = nets !== undefined && (layer + 1) % 4 !== 0 && !isPrediction;
    const kind = pattern[layer % pattern.length];
    const isFfn = family.isApart === true && kind === '-';
    const isStateSpace = mamba !== undefined && !mamba.isBeside && kind === 'M';
    if (mamba !== undefined && (isStateSpace || mamba.isBeside)) {
      const [mambaHeads, inner] = [mamba.heads * times, mamba.heads * times * mamba.dim];
      const channels = inner + 2 * mamba.groups * mamba.state;
      matrix(`${block}.ssm_in.weight`, hidden, inner + channels + mambaHeads);
      vector(`${block}.ssm_conv1d.weight`, 4, 0.3, channels);
      vector(`${block}.ssm_conv1d.bias`, channels, 0);
      vector(`${block}.ssm_dt.bias`, mambaHeads, -0.5);
      // A state loses some per cent to a half with each row.
      vector(`${block}.ssm_a`, 1, -0.5, mambaHeads);
      vector(`${block}.ssm_d`, 1, 1, mambaHeads);
      if (!mamba.hasNoNorm) vector(`${block}.ssm_norm.weight`, inner / mamba.groups, 1, mamba.groups);
      matrix(`${block}.ssm_out.weight`, inner, hidden);
    }
    const isConvolution = family.convolutions !== undefined && kind === 'M';
    if (isNet) {
      const [valueHeads, width] = [nets.valueHeads * times, nets.valueHeads * times * nets.dim];
      const channels = 2 * nets.keyHeads * times * nets.dim + width;
      matrix(`${block}.attn_qkv.weight`, hidden, channels);
      matrix(`${block}.attn_gate.weight`, hidden, width);
      if (nets.isGrouped) matrix(`${block}.ssm_ba.weight`, hidden, 2 * valueHeads);
      else {
        matrix(`${block}.ssm_beta.weight`, hidden, valueHeads);
        matrix(`${block}.ssm_alpha.weight`, hidden, valueHeads);
      }
      vector(`${block}.ssm_conv1d.weight`, 4, 0.3, channels);
      // A state loses some per cent to a half with each row.
      vector(`${block}.ssm_a`, valueHeads, -0.3);
      vector(`${block}.ssm_dt.bias`, valueHeads, -0.5);
      vector(`${block}.ssm_norm.weight`, nets.dim, 1);
      matrix(`${block}.ssm_out.weight`, width, hidden);
    } else if (isConvolution) {
      const taps = family.convolutions?.taps as number;
      matrix(`${block}.shortconv.in_proj.weight`, hidden, 3 * hidden);
      vector(`${block}.shortconv.conv.weight`, taps, 0.5, hidden);
      matrix(`${block}.shortconv.out_proj.weight`, hidden, hidden);
    } else if (isStateSpace || isFfn) {
      // Written above, or below.
    } else if (latents !== undefined) {
      const { queryRank, rank, plain, rotated, valueDim } = latents;
      const queries = heads * (plain + rotated);
      if (queryRank === undefined) matrix(`${block}.attn_q.weight`, hidden, queries);
      else {
        matrix(`${block}.attn_q_a.weight`, hidden, queryRank);
        vector(`${block}.attn_q_a_norm.weight`, queryRank, 1);
        matrix(`${block}.attn_q_b.weight`, queryRank, queries);
      }
      matrix(`${block}.attn_kv_a_mqa.weight`, hidden, rank + rotated);
      vector(`${block}.attn_kv_a_norm.weight`, rank, 1);
      matrix(`${block}.attn_k_b.weight`, plain, rank, undefined, 0, heads);
      matrix(`${block}.attn_v_b.weight`, rank, valueDim, undefined, 0, heads);
      matrix(`${block}.attn_output.weight`, heads * valueDim, hidden);
    } else if (family.joined?.includes('qkv')) {
      project(`${block}.attn_qkv`, hidden, heads * dim + 2 * kvWidth);
      for (const name of family.biases?.filter((biased) => /^attn_[qkv]$/.test(biased)) ?? [])
        vector(`${block}.${name}.bias`, name === 'attn_q' ? heads * dim : kvWidth, 0);
    } else {
      project(`${block}.attn_q`, hidden, (nets === undefined ? 1 : 2) * heads * dim);
      if (!isShared) project(`${block}.attn_k`, hidden, kvWidth);
      if (!isShared && !hasNoValues) project(`${block}.attn_v`, hidden, kvWidth);
    }
    const isAttention = !isNet && !isConvolution && !isStateSpace && !isFfn && latents === undefined;
    if (isAttention) project(`${block}.attn_output`, heads * dim, hidden);
    if (family.qkNorm !== undefined && isAttention) {
      const { qkNorm: over, means } = family;
      const headNorm = (name: string, count: number, mean = 1): void => {
        if (over === 'own-head') vector(`${block}.${name}.weight`, dim, mean, count);
        else vector(`${block}.${name}.weight`, over === 'head' ? dim : count * dim, mean);
      };
      headNorm('attn_q_norm', heads, means?.attn_q_norm);
      if (!isShared) headNorm('attn_k_norm', kvWidth / dim);
    }
    if (family.hasSinks) vector(`${block}.attn_sinks.weight`, heads, 1);
    // As its files have it.
    const suffix = architecture === 'falcon-h1' ? '' : '.weight';
    for (const name of norms.slice(norms[0] === 'attn_norm' ? 1 : 0)) norm(`${block}.${name}${suffix}`);
    if (family.isApart && !isFfn) continue;
    if (experts !== undefined && layer >= (experts.dense ?? 0)) {
      matrix(`${block}.ffn_gate_inp.weight`, hidden, experts.count);
      if (experts.hasChoiceBias) vector(`${block}.exp_probs_b.bias`, experts.count, 0);
      if (experts.isBiased) {
        vector(`${block}.ffn_gate_inp.bias`, experts.count, 0);
        vector(`${block}.ffn_gate_exps.bias`, wide(experts.ffn), 0, experts.count);
        vector(`${block}.ffn_up_exps.bias`, wide(experts.ffn), 0, experts.count);
        vector(`${block}.ffn_down_exps.bias`, hidden, 0, experts.count);
      }
      if (family.joined?.includes('gate_up')) {
        matrix(`${block}.ffn_gate_up_exps.weight`, hidden, 2 * wide(experts.ffn), undefined, 0, experts.count);
      } else {
        if (!family.hasNoGate)
          matrix(`${block}.ffn_gate_exps.weight`, hidden, wide(experts.ffn), undefined, 0, experts.count);
        matrix(`${block}.ffn_up_exps.weight`, hidden, wide(experts.ffn), undefined, 0, experts.count);
      }
      matrix(`${block}.ffn_down_exps.weight`, wide(experts.ffn), hidden, undefined, 0, experts.count);
      if (experts.isGated) vector(`${block}.ffn_gate_inp_shexp.weight`, hidden, 0);
      if (experts.sharedFfn !== undefined) {
        if (!family.hasNoGate) matrix(`${block}.ffn_gate_shexp.weight`, hidden, wide(experts.sharedFfn));
        matrix(`${block}.ffn_up_shexp.weight`, hidden, wide(experts.sharedFfn));
        matrix(`${block}.ffn_down_shexp.weight`, wide(experts.sharedFfn), hidden);
      }
      if (experts.isBeside) {
        vector(`${block}.ffn_gate_inp.scale`, hidden, 1);
        vector(`${block}.ffn_down_exps.scale`, experts.count, 1);
        for (const name of ['pre_ffw_norm_2', 'post_ffw_norm_1', 'post_ffw_norm_2']) norm(`${block}.${name}.weight`);
      } else continue;
    }
    if (family.joined?.includes('gate_up') && !experts?.isBeside) project(`${block}.ffn_up`, hidden, 2 * own.ffn);
    else {
      if (!family.hasNoGate) project(`${block}.ffn_gate`, hidden, own.ffn);
      project(`${block}.ffn_up`, hidden, own.ffn);
    }
    project(`${block}.ffn_down`, own.ffn, hidden);
    if (inputs > 0) {
      matrix(`${block}.inp_gate.weight`, hidden, inputs);
      matrix(`${block}.proj.weight`, inputs, hidden);
      norm(`${block}.post_norm.weight`);
    }
    if (family.hasAltup) altupBlock({ matrix, vector, norm }, block, hidden);
    if (family.hasOutputScales) vector(`${block}.layer_output_scale.weight`, 1, 0.8);
  }
  norm(family.convolutions === undefined ? 'output_norm.weight' : 'token_embd_norm.weight');
  if (!family.isTied) {
    const scale = family.hasOutputAlone ? 0.04 : undefined;
    matrix('output.weight', hidden, tokens.length, scale, paddedRows);
  }
  if (family.biases?.includes('output')) vector('output.bias', tokens.length + paddedRows, 0);
  for (const [name, { length, mean, values }] of Object.entries(family.vectors ?? {})) {
    if (values === undefined) vector(name, length, mean);
    else builder.tensor(name, { type: 'F32', dims: [length], data: new Uint8Array(Float32Array.from(values).buffer) });
  }
  if (inputs > 0) {
    matrix('per_layer_token_embd.weight', layers * inputs, tokens.length, 0.2, paddedRows);
    matrix('per_layer_model_proj.weight', hidden, layers * inputs);
    vector('per_layer_proj_norm.weight', inputs, 1);
  }
  if (family.hasAltup) altupEnds({ matrix }, hidden);
  for (const [name, spec] of Object.entries(options.tensors ?? {})) builder.tensor(name, spec);
  return builder;
}

/** Kind of a tensor, in any block: attn_q of blk.0.attn_q.weight. */
const kindOf = (name: string): string => name.replace(/^blk\.\d+\./, '').replace(/\.weight$/, '');
