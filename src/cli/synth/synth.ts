import { realpathSync, renameSync, statSync } from 'node:fs';
import type { TensorTypeName } from '../../lib/gguf/tensor-types.js';
import { type GgufValue, type TensorSource, writeGguf } from '../../lib/gguf/writer.js';
import { RocmForgeError } from '../../shared/errors.js';
import { outputOf } from '../../shared/write-error.js';
import { MIXTURES, matrixType, UNIFORM_TYPES, type WeightType } from './mixtures.js';
import { type FillRandom, RandomWeights } from './random-weights.js';
import { type ModelShape, SHAPES } from './shapes.js';
import { syntheticVocabulary } from './vocabulary.js';

export interface SynthOptions {
  /** One of {@link SHAPES}, or a shape of one's own. */
  readonly shape: string | ModelShape;
  readonly type: string;
  readonly output: string;
  /** Zeros in place of weights, which take no room on a disk: for `inspect --fit`. */
  readonly withoutWeights?: boolean | undefined;
  /** Source of the weights' bytes; default: the operating system. */
  readonly random?: FillRandom;
}

/**
 * Writes a GGUF file of a real model's shape with random weights, directly in the wanted quantization: for benchmarks and
 * tests, which need a model's size and not its sense.
 *
 * @returns bytes written
 * @throws RocmForgeError `INVALID_OPTION` for a shape or type that is not known; as {@link writeError} for a file that cannot be written
 */
export function synth(options: SynthOptions): number {
  const shape = typeof options.shape === 'string' ? SHAPES[options.shape] : options.shape;
  if (shape === undefined) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--shape ${options.shape} is unknown; give one of ${Object.keys(SHAPES).join(', ')}`,
    );
  }
  const types: readonly string[] = [...UNIFORM_TYPES, ...Object.keys(MIXTURES)];
  if (!types.includes(options.type)) {
    throw new RocmForgeError('INVALID_OPTION', `--type ${options.type} is unknown; give one of ${types.join(', ')}`);
  }
  const type = options.type as WeightType;
  // llama.cpp asks files with phi-3 or phi3 in their name for tokens of that vocabulary.
  const title = (typeof options.shape === 'string' ? options.shape : shape.architecture).replace(/phi-?3/, 'phi 3');
  const name = `${title} ${type}, random weights`;
  const keys: Record<string, GgufValue> = {
    'general.architecture': { type: 'string', value: shape.architecture },
    ...metadata(shape, name),
  };
  return outputOf(`--output ${options.output}`, () =>
    writeBeside(options.output, (file) =>
      writeGguf(file, keys, tensors(shape, type, new RandomWeights(options.random)), options.withoutWeights !== true),
    ),
  );
}

/** Writes `<path>.part`, and renames it: a process that is ended leaves no half of a model under its name. */
function writeBeside<T>(path: string, write: (file: string) => T): T {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !stats.isFile()) return write(path);
  const target = stats === undefined ? path : realpathSync(path);
  const beside = `${target}.part`;
  const result = write(beside);
  renameSync(beside, target);
  return result;
}

/** Rows that a net's convolution sees; of so many blocks the last has attention. */
const [CONVOLUTION, ATTENTION_INTERVAL] = [4, 4];

function metadata(shape: ModelShape, name: string): Record<string, GgufValue> {
  const key = (suffix: string) => `${shape.architecture}.${suffix}`;
  const u32 = (value: number): GgufValue => ({ type: 'u32', value });
  const f32 = (value: number): GgufValue => ({ type: 'f32', value });
  const typed = (name: string, value: number | readonly number[]): GgufValue => {
    if (typeof value !== 'number') return { type: 'i32s', value };
    return name.endsWith('softcapping') ? f32(value) : u32(value);
  };
  const keys = Object.entries(shape.parts?.keys ?? {}).map(([name, value]): [string, GgufValue] => [
    key(name),
    typed(name, value),
  ]);
  const { tokens, types, merges, bos, eos } = syntheticVocabulary(shape.vocabulary);
  return {
    'general.name': { type: 'string', value: name },
    [key('block_count')]: u32(shape.layers + Number(shape.predicts ?? false)),
    ...(shape.predicts && { [key('nextn_predict_layers')]: u32(1) }),
    [key('context_length')]: u32(shape.context),
    [key('embedding_length')]: u32(shape.hidden),
    [key('feed_forward_length')]: u32(shape.ffn),
    [key('attention.head_count')]: u32(shape.heads),
    [key('attention.head_count_kv')]: u32(shape.kvHeads),
    [key('attention.key_length')]: u32(shape.headDim),
    [key('attention.value_length')]: u32(shape.headDim),
    [key('attention.layer_norm_rms_epsilon')]: { type: 'f32', value: 1e-5 },
    [key('rope.dimension_count')]: u32(shape.headDim),
    [key('rope.freq_base')]: { type: 'f32', value: shape.ropeBase },
    [key('vocab_size')]: u32(shape.vocabulary),
    ...Object.fromEntries(keys),
    ...(shape.experts && {
      [key('expert_count')]: u32(shape.experts.count),
      [key('expert_used_count')]: u32(shape.experts.used),
      ...(shape.experts.ffn !== shape.ffn && { [key('expert_feed_forward_length')]: u32(shape.experts.ffn) }),
    }),
    ...(shape.nets && {
      [key('ssm.conv_kernel')]: u32(CONVOLUTION),
      [key('ssm.state_size')]: u32(shape.nets.dim),
      [key('ssm.group_count')]: u32(shape.nets.keyHeads),
      [key('ssm.time_step_rank')]: u32(shape.nets.valueHeads),
      [key('ssm.inner_size')]: u32(shape.nets.valueHeads * shape.nets.dim),
      [key('full_attention_interval')]: u32(ATTENTION_INTERVAL),
    }),
    'tokenizer.ggml.model': { type: 'string', value: 'gpt2' },
    'tokenizer.ggml.pre': { type: 'string', value: shape.preTokenizer },
    'tokenizer.ggml.tokens': { type: 'strings', value: tokens },
    'tokenizer.ggml.token_type': { type: 'i32s', value: types },
    'tokenizer.ggml.merges': { type: 'strings', value: merges },
    'tokenizer.ggml.bos_token_id': u32(bos),
    'tokenizer.ggml.eos_token_id': u32(eos),
    'tokenizer.ggml.add_bos_token': { type: 'bool', value: shape.preTokenizer === 'llama-bpe' },
  };
}

function tensors(shape: ModelShape, type: WeightType, weights: RandomWeights): TensorSource[] {
  const { hidden, ffn, heads, kvHeads, headDim, vocabulary, layers } = shape;
  const matrix = (name: string, columns: number, rows: number, layer?: number, count?: number): TensorSource => {
    const dims = count === undefined ? [columns, rows] : [columns, rows, count];
    const tensorType: TensorTypeName = matrixType(type, shape, name, layer, columns);
    const prefix = layer === undefined ? '' : `blk.${layer}.`;
    return { name: `${prefix}${name}.weight`, type: tensorType, dims, data: () => weights.bytes(tensorType, dims) };
  };
  const vector = (name: string, values: Float32Array, dims = [values.length]): TensorSource => ({
    name,
    type: 'F32',
    dims,
    data: () => [new Uint8Array(values.buffer)],
  });
  const ones = (name: string, length = hidden) => vector(`${name}.weight`, new Float32Array(length).fill(1));
  const bias = (name: string, ...dims: readonly [number, ...number[]]) =>
    vector(
      name,
      Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, i) => 0.1 * Math.sin(i + 1)),
      [...dims],
    );
  const list = [matrix('token_embd', hidden, vocabulary), ones('output_norm')];
  if (!shape.tied) list.push(matrix('output', hidden, vocabulary));
  if (shape.ropeFactors) list.push(vector('rope_freqs.weight', ropeDivisors(shape, shape.ropeFactors)));
  const { norms = ['attn_norm', 'ffn_norm'], joined, qkNorm, biases, hasSinks } = shape.parts ?? {};
  const [wide, narrow] = [heads * headDim, kvHeads * headDim];
  for (let layer = 0; layer < layers + Number(shape.predicts ?? false); layer++) {
    const block = `blk.${layer}`;
    const project = (name: string, columns: number, rows: number) => {
      list.push(matrix(name, columns, rows, layer));
      if (biases?.includes(name)) list.push(bias(`${block}.${name}.bias`, rows));
    };
    for (const name of norms) list.push(ones(`${block}.${name}`));
    const { nets } = shape;
    const isPrediction = layer === layers;
    const isNet = nets !== undefined && (layer + 1) % ATTENTION_INTERVAL !== 0 && !isPrediction;
    if (isPrediction) {
      for (const name of ['enorm', 'hnorm', 'shared_head_norm']) list.push(ones(`${block}.nextn.${name}`));
      project('nextn.eh_proj', 2 * hidden, hidden);
    }
    if (qkNorm !== undefined && !isNet) {
      list.push(ones(`${block}.attn_q_norm`, qkNorm === 'head' ? headDim : wide));
      list.push(ones(`${block}.attn_k_norm`, qkNorm === 'head' ? headDim : narrow));
    }
    if (isNet) {
      const { keyHeads, valueHeads, dim } = nets;
      const [values, channels] = [valueHeads * dim, (2 * keyHeads + valueHeads) * dim];
      project('attn_qkv', hidden, channels);
      project('attn_gate', hidden, values);
      project('ssm_beta', hidden, valueHeads);
      project('ssm_alpha', hidden, valueHeads);
      list.push({
        ...vector(`${block}.ssm_conv1d.weight`, new Float32Array(CONVOLUTION * channels).fill(0.4)),
        dims: [CONVOLUTION, channels],
      });
      list.push(vector(`${block}.ssm_a`, new Float32Array(valueHeads).fill(-0.3)));
      list.push(bias(`${block}.ssm_dt.bias`, valueHeads));
      list.push(ones(`${block}.ssm_norm`, dim));
      project('ssm_out', values, hidden);
    } else if (joined?.includes('qkv')) project('attn_qkv', hidden, wide + 2 * narrow);
    else {
      project('attn_q', hidden, (nets === undefined ? 1 : 2) * wide);
      project('attn_k', hidden, narrow);
      project('attn_v', hidden, narrow);
    }
    if (!isNet) project('attn_output', wide, hidden);
    if (hasSinks) list.push(vector(`${block}.attn_sinks.weight`, new Float32Array(heads).fill(1)));
    if (shape.experts !== undefined) {
      const { count, ffn: width } = shape.experts;
      list.push(matrix('ffn_gate_inp', hidden, count, layer));
      list.push(
        matrix('ffn_gate_exps', hidden, width, layer, count),
        matrix('ffn_up_exps', hidden, width, layer, count),
      );
      list.push(matrix('ffn_down_exps', width, hidden, layer, count));
      if (hasSinks) {
        list.push(bias(`${block}.ffn_gate_inp.bias`, count), bias(`${block}.ffn_down_exps.bias`, hidden, count));
        list.push(bias(`${block}.ffn_gate_exps.bias`, width, count), bias(`${block}.ffn_up_exps.bias`, width, count));
      }
      continue;
    }
    if (joined?.includes('gate_up')) project('ffn_up', hidden, 2 * ffn);
    else {
      project('ffn_gate', hidden, ffn);
      project('ffn_up', hidden, ffn);
    }
    project('ffn_down', ffn, hidden);
  }
  return list;
}

/** Llama 3.1's rope_freqs.weight: long waves are slowed by `factor`, short ones not, those between in part. */
function ropeDivisors(shape: ModelShape, scaling: NonNullable<ModelShape['ropeFactors']>): Float32Array {
  const { factor, low, high, original } = scaling;
  return Float32Array.from({ length: shape.headDim / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * shape.ropeBase ** ((2 * i) / shape.headDim);
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    const smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}
