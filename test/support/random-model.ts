import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { GgufBuilder, typed } from './gguf-builder.js';

export interface RandomModelOptions {
  readonly type?: 'F32' | 'F16';
  readonly contextLength?: number;
  readonly layers?: number;
  readonly seed?: number;
  readonly chatTemplate?: string;
}

const HIDDEN = 64;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD_DIM = 16;
const FFN = 128;
const WORDS = ['▁the', '▁a', '▁fox', '▁sea', '▁and', '▁ran', '▁to', '▁old', '▁wind', '▁sang', '▁long', '▁night', '.'];

/**
 * Writes a llama of random weights that runs: a SentencePiece vocabulary of bytes and a few words, two layers, grouped
 * KV heads. Its text means nothing; the same seed gives the same file.
 *
 * @returns the file's path, in a temporary folder
 */
export function writeRandomModel(options: RandomModelOptions = {}): string {
  const { type = 'F32', contextLength = 512, layers = 2 } = options;
  const random = gaussian(options.seed ?? 1);
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  // Every printable character stands for itself too, so that prompts are not spelled in bytes alone.
  const letters = ['▁', ...'abcdefghijklmnopqrstuvwxyz'];
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...WORDS, ...letters];
  const types = [2, 3, 3, ...bytes.map(() => 6), ...WORDS.map(() => 1), ...letters.map(() => 1)];
  const builder = new GgufBuilder({ name: 'random.gguf' });
  const metadata = {
    'general.architecture': 'llama',
    'general.name': 'random llama',
    'llama.block_count': layers,
    'llama.context_length': contextLength,
    'llama.embedding_length': HIDDEN,
    'llama.feed_forward_length': FFN,
    'llama.attention.head_count': HEADS,
    'llama.attention.head_count_kv': KV_HEADS,
    'llama.attention.layer_norm_rms_epsilon': typed.f32(1e-5),
    'llama.rope.freq_base': typed.f32(10_000),
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': typed.arrayOf(
      typed.f32,
      tokens.map((_, i) => -i),
    ),
    'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types),
    'tokenizer.ggml.bos_token_id': 1,
    'tokenizer.ggml.eos_token_id': 2,
    ...(options.chatTemplate !== undefined && { 'tokenizer.chat_template': options.chatTemplate }),
  };
  for (const [key, value] of Object.entries(metadata)) builder.set(key, value);
  const matrix = (name: string, columns: number, rows: number, scale = 1 / Math.sqrt(columns)): void => {
    const values = Float32Array.from({ length: columns * rows }, () => random() * scale);
    const data = type === 'F32' ? new Uint8Array(values.buffer) : new Uint8Array(toHalves(values).buffer);
    builder.tensor(name, { type, dims: [columns, rows], data });
  };
  const norm = (name: string): void => {
    const data = new Uint8Array(Float32Array.from({ length: HIDDEN }, () => 1 + 0.1 * random()).buffer);
    builder.tensor(name, { type: 'F32', dims: [HIDDEN], data });
  };
  matrix('token_embd.weight', HIDDEN, tokens.length, 1);
  for (let layer = 0; layer < layers; layer++) {
    norm(`blk.${layer}.attn_norm.weight`);
    matrix(`blk.${layer}.attn_q.weight`, HIDDEN, HEADS * HEAD_DIM);
    matrix(`blk.${layer}.attn_k.weight`, HIDDEN, KV_HEADS * HEAD_DIM);
    matrix(`blk.${layer}.attn_v.weight`, HIDDEN, KV_HEADS * HEAD_DIM);
    matrix(`blk.${layer}.attn_output.weight`, HEADS * HEAD_DIM, HIDDEN);
    norm(`blk.${layer}.ffn_norm.weight`);
    matrix(`blk.${layer}.ffn_gate.weight`, HIDDEN, FFN);
    matrix(`blk.${layer}.ffn_up.weight`, HIDDEN, FFN);
    matrix(`blk.${layer}.ffn_down.weight`, FFN, HIDDEN);
  }
  norm('output_norm.weight');
  matrix('output.weight', HIDDEN, tokens.length);
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'random.gguf');
  writeFileSync(file, builder.build());
  return file;
}

/** Standard normal numbers (Box-Muller over mulberry32). */
function gaussian(seed: number): () => number {
  let state = seed;
  const uniform = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** f32 to f16 bits, rounded to nearest even; the values here are normal numbers of moderate size. */
function toHalves(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer);
  return Uint16Array.from(bits, (word) => {
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    if (magnitude < 0x38800000) return sign;
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  });
}
