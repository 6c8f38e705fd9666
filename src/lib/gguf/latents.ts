import type { ArchitectureKeys } from './architecture-keys.js';
import type { ModelParameters } from './model-parameters.js';

/** Sizes of latent attention, in elements; DeepSeek-V2 (2024). */
export interface Latents {
  /** Width that queries are projected through; absent: they are a product of the residual stream. */
  readonly queryRank?: number;
  /** Width of the latent that keys and values of all heads are made of. */
  readonly rank: number;
  /** Elements of each head of q and k that are not rotated, and that are. */
  readonly plain: number;
  readonly rotated: number;
  /** Elements of each head of v. */
  readonly valueDim: number;
}

/** Heads are whole lanes of vector loads, and whole blocks of quantized inputs. */
const MULTIPLE = 32;

/**
 * The latents of deepseek2, whose heads share a key of `rank` and `rotated` elements.
 *
 * @throws GgufError `GGUF_INVALID` for a key that is missing or contradicts another; `MODEL_UNSUPPORTED` for files without
 *         the absorbed form, and for sizes that there are no kernels for
 */
export function readLatents(
  keys: ArchitectureKeys,
  { headDim, kvHeads, ropeDimensions: rotated }: Pick<ModelParameters, 'headDim' | 'kvHeads' | 'ropeDimensions'>,
): Latents {
  const rank = keys.count('attention.kv_lora_rank');
  const keyDim = keys.optionalCount('attention.key_length_mla');
  if (keyDim === undefined || kvHeads !== 1)
    keys.unsupported(
      'attention.head_count_kv',
      `is ${kvHeads}: files without the absorbed form of latent attention (attn_k_b, attn_v_b) are not supported; convert ` +
        'the model with a newer llama.cpp',
    );
  if (headDim !== rank + rotated)
    keys.fail('attention.key_length', `is ${headDim}, not kv_lora_rank ${rank} and ${rotated} rotated elements`);
  keys.expectEqual('attention.value_length', rank);
  const valueDim = keys.count('attention.value_length_mla');
  const plain = keyDim - rotated;
  if (plain <= 0) keys.fail('attention.key_length_mla', `is ${keyDim}, of which ${rotated} are rotated`);
  for (const [key, size] of [
    ['attention.kv_lora_rank', rank],
    ['attention.key_length_mla', plain],
  ] as const) {
    if (size % MULTIPLE !== 0)
      keys.unsupported(key, `makes heads of ${size} elements, which is not a multiple of ${MULTIPLE}`);
  }
  const queryRank = keys.countOrNone('attention.q_lora_rank');
  return { ...(queryRank > 0 && { queryRank }), rank, plain, rotated, valueDim };
}
