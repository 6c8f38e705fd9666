import { aligned, i32, inout, input } from '../device/contract.js';
import type { FloatType } from './formats.js';

/** Tokens a KV block holds. */
export const KV_BLOCK_TOKENS = 16;

/** Head sizes that attention is built for. */
export const HEAD_DIMS: readonly number[] = [8, 16, 32, 48, 64, 80, 96, 112, 128, 256];

export const slotArguments = [input('slots', 'i32', 'slot_count', 'slot_words')] as const;

export const rowArguments = [
  input('row_position', 'i32', 'tokens'),
  input('row_slot', 'i32', 'tokens'),
  input('slots', 'i32', 'slot_count', 'slot_words'),
  i32('slot_words'),
] as const;

export const qkvOf = (headDim: string) => input('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', headDim);

export const pagedCache = <const N extends string>(name: N, type: FloatType, headDim: string) =>
  inout(name, type, 'blocks', 'kv_heads', `${KV_BLOCK_TOKENS}`, headDim);

export const readCache = <const N extends string>(name: N, type: FloatType, headDim: string) =>
  input(name, type, 'blocks', 'kv_heads', `${KV_BLOCK_TOKENS}`, headDim);

/** Bytes of q8_0 for each element of a block of a KV cache: int8 quants, and an f16 scale for each 32 (`forge/kv_q8.h`). */
const KV_Q8_BLOCK = ['blocks', 'kv_heads', '17'] as const;

/** Bytes of one tensor of a q8_0 KV cache; head_dim is a multiple of 32. */
export function kvQ8Bytes(blocks: number, kvHeads: number, headDim: number): number {
  return blocks * kvHeads * 17 * headDim;
}

export const q8Cache = <const N extends string>(name: N, headDim: string) =>
  aligned(4, inout(name, 'u8', ...KV_Q8_BLOCK, headDim));

export const readQ8Cache = <const N extends string>(name: N, headDim: string) =>
  aligned(4, input(name, 'u8', ...KV_Q8_BLOCK, headDim));
