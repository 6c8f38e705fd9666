import { BLOCK_TYPES, WEIGHT_FLOAT_TYPES } from '../../executor/kernels/formats.js';
import type { TensorTypeName } from '../../shared/gguf/tensor-types.js';
import type { ModelShape } from './shapes.js';

/** Types every matrix can be given alike, and llama.cpp's mixtures of two. */
export const UNIFORM_TYPES = [...WEIGHT_FLOAT_TYPES, ...BLOCK_TYPES].map(
  (type) => type.toUpperCase() as Uppercase<typeof type>,
);
export const MIXTURES = { Q4_K_M: 'Q4_K', Q5_K_M: 'Q5_K' } as const;
export type WeightType = (typeof UNIFORM_TYPES)[number] | keyof typeof MIXTURES;

/** What a K format gives way to where a row is no whole number of its blocks of 256 (llama.cpp's fallback). */
const FALLBACKS: Partial<Record<TensorTypeName, TensorTypeName>> = { Q4_K: 'Q5_0', Q5_K: 'Q5_1', Q6_K: 'Q8_0' };

/**
 * The type of a matrix: in a uniform type that type; in a mixture as `llama_tensor_get_type` of llama.cpp's
 * `llama-quant.cpp` decides for Q4_K_M and Q5_K_M, which keep the output projection and some layers' attn_v and ffn_down
 * in Q6_K.
 *
 * @param layer the block it is in; `undefined` for the embedding and the output projection
 * @param columns the length of its rows
 */
export function matrixType(
  weights: WeightType,
  shape: Pick<ModelShape, 'layers' | 'tied'>,
  name: string,
  layer: number | undefined,
  columns: number,
): TensorTypeName {
  const type = weights in MIXTURES ? mixtureType(weights as keyof typeof MIXTURES, shape, name, layer) : weights;
  return columns % 256 === 0
    ? (type as TensorTypeName)
    : (FALLBACKS[type as TensorTypeName] ?? (type as TensorTypeName));
}

function mixtureType(
  mixture: keyof typeof MIXTURES,
  { layers, tied }: Pick<ModelShape, 'layers' | 'tied'>,
  name: string,
  layer: number | undefined,
): TensorTypeName {
  const isOutput = name === 'output' || (tied && name === 'token_embd');
  const isFavoured = (name === 'attn_v' || name === 'ffn_down') && usesMoreBits(layer ?? 0, layers);
  return isOutput || isFavoured ? 'Q6_K' : MIXTURES[mixture];
}

/** The first and the last eighth of the layers, and every third between. */
function usesMoreBits(layer: number, layers: number): boolean {
  const eighth = Math.floor(layers / 8);
  return layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
}
