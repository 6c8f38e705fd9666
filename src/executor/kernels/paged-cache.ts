import { aligned, type BufferArgument, f32, i32, inout, input } from '../device/contract.js';

/** Tokens a KV block holds. */
export const KV_BLOCK_TOKENS = 16;

/** Head sizes that attention is built for. */
export const HEAD_DIMS: readonly number[] = [8, 16, 32, 40, 48, 64, 72, 80, 96, 100, 112, 120, 128, 160, 192, 256, 512];

/** Those of {@link HEAD_DIMS}, and DeepSeek's latent attention, whose heads share keys of 512 and 64 elements. */
export const PAGED_HEAD_DIMS: readonly number[] = [...HEAD_DIMS, 576];

/** Those that attention on matrix units is built for: whole tiles of sixteen elements. */
export const TILE_HEAD_DIMS: readonly number[] = [64, 80, 96, 128, 256];

/** Larger ones that attention on matrix units is built for: a row's heads share keys and values, rows do not. */
export const LARGE_HEAD_DIMS: readonly number[] = [512, 576];

/** Those whose rows share keys and values on the CPU: all but those of latent attention. */
export const ROWS_HEAD_DIMS = HEAD_DIMS;

/** Those of {@link TILE_HEAD_DIMS} of whole strips of 64, for which RoPE, attention and the combination of its splits are fused. */
export const FUSED_HEAD_DIMS: readonly number[] = [64, 128, 256];

/** Those that Hopper's matrix instructions have registers for. */
export const WIDE_HEAD_DIMS: readonly number[] = [64, 128, 256];

/** Threads of a block of attention_wide, and LDS that it asks for: three chunks of keys and values of 128 elements. */
export const ATTENTION_WIDE_THREADS = 384;
export const ATTENTION_WIDE_LDS = 196_608;
/** The same of larger heads: keys or values of three chunks, and the queries. */
export const ATTENTION_WIDE_PARTS_LDS = 229_376;

/** Elements of a head's vector that share a scale in a q8_0 KV cache. */
const KV_Q8_GROUP = 32;

/** Those of {@link PAGED_HEAD_DIMS} that a q8_0 KV cache can hold: whole groups. */
export const KV_Q8_HEAD_DIMS: readonly number[] = PAGED_HEAD_DIMS.filter((headDim) => headDim % KV_Q8_GROUP === 0);

export const ROWS_Q8_HEAD_DIMS: readonly number[] = ROWS_HEAD_DIMS.filter((headDim) => headDim % KV_Q8_GROUP === 0);

export const TILE_Q8_HEAD_DIMS: readonly number[] = TILE_HEAD_DIMS.filter((headDim) => headDim % KV_Q8_GROUP === 0);

/** Element types of keys and values. */
export const KV_CACHE_TYPES = ['f32', 'f16', 'q8_0'] as const;
export type KvCacheType = (typeof KV_CACHE_TYPES)[number];

export const slotArguments = [input('slots', 'i32', 'slot_count', 'slot_words')] as const;

export const rowArguments = [
  input('row_position', 'i32', 'tokens'),
  input('row_slot', 'i32', 'tokens'),
  input('slots', 'i32', 'slot_count', 'slot_words'),
  i32('slot_words'),
] as const;

/**
 * What scores are made of: the factor of q · k, the softcap of the result (0: none), and the number of positions up to its own
 * that a row attends to (0: all).
 */
export const scoringArguments = [i32('window'), f32('scale'), f32('softcap')] as const;
/** The same where scores are not softcapped. */
export const plainScoringArguments = [i32('window'), f32('scale')] as const;

/** The sink of a head that has none, which changes no bit: LOWEST of `forge/device.h`. */
export const NO_SINK = Math.fround(-3e38);

/** A score more of each head's softmax, whose value is zero, or {@link NO_SINK}; Xiao et al. (2024). */
export const sinksOf = input('sinks', 'f32', 'heads');

export const qkvOf = (headDim: string) => input('qkv', 'f32', 'tokens', 'heads + 2 * kv_heads', headDim);

/**
 * Elements of one tensor of a KV cache, `[blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]`; of q8_0 bytes, since a block and head
 * of it are int8 quants, then an f16 scale for each {@link KV_Q8_GROUP} (`forge/kv_q8.h`).
 */
export function cacheElements(type: KvCacheType, blocks: number, kvHeads: number, headDim: number): number {
  return blocks * kvHeads * headDim * (type === 'q8_0' ? KV_Q8_TOKEN_BYTES : KV_BLOCK_TOKENS);
}

/** Bytes of q8_0 that a block and head have for each element of a vector: KV_BLOCK_TOKENS quants, and their share of scales. */
const KV_Q8_TOKEN_BYTES = KV_BLOCK_TOKENS + (2 * KV_BLOCK_TOKENS) / KV_Q8_GROUP;

/** Words that a row of a block and head takes among elements, and among the scales behind them; undefined: no whole ones. */
export function rowWordsOf(
  type: KvCacheType,
  headDim: number,
): readonly [elements: number, scales: number] | undefined {
  const [elements, scales] =
    type === 'q8_0' ? [headDim, (2 * headDim) / KV_Q8_GROUP] : [headDim * CACHE_BYTES[type], 0];
  const words = [elements / 4, scales / 4] as const;
  return words.every(Number.isInteger) ? words : undefined;
}

const CACHE_BYTES = { f32: 4, f16: 2 } as const;

const shapeOf = (type: KvCacheType, headDim: string) =>
  ['blocks', 'kv_heads', `${type === 'q8_0' ? KV_Q8_TOKEN_BYTES : KV_BLOCK_TOKENS}`, headDim] as const;

/** Element type of a cache on a device. */
export const cacheDtype = (type: KvCacheType): 'f32' | 'f16' | 'u8' => (type === 'q8_0' ? 'u8' : type);

/** A cache's keys or values, which the kernel adds to. @param align bytes, where floats are stored by more than one */
export const pagedCache = <const N extends string>(name: N, type: KvCacheType, headDim: string, align?: number) =>
  cacheArgument(inout(name, cacheDtype(type), ...shapeOf(type, headDim)), type, align);

/** A cache's keys or values, which the kernel reads. @param align bytes, where floats are loaded by more than one */
export const readCache = <const N extends string>(name: N, type: KvCacheType, headDim: string, align?: number) =>
  cacheArgument(input(name, cacheDtype(type), ...shapeOf(type, headDim)), type, align);

/** Quants are loaded by four. */
function cacheArgument<B extends BufferArgument>(argument: B, type: KvCacheType, align?: number): B {
  if (type === 'q8_0') return aligned(4, argument);
  return align === undefined ? argument : aligned(align, argument);
}
