import { BLOCK_TYPES, WEIGHT_FLOAT_TYPES } from '../../executor/kernels/formats.js';
import type { TensorTypeName } from '../../lib/gguf/tensor-types.js';
import type { ModelShape } from './shapes.js';

/** Types every matrix can be given alike, and llama.cpp's mixtures, by the type of most of their matrices. */
export const UNIFORM_TYPES = [...WEIGHT_FLOAT_TYPES, ...BLOCK_TYPES].map(
  (type) => type.toUpperCase() as Uppercase<typeof type>,
);
export const MIXTURES = { Q3_K_M: 'Q3_K', Q4_K_M: 'Q4_K', Q5_K_M: 'Q5_K', MXFP4_MOE: 'Q8_0' } as const;
export type WeightType = (typeof UNIFORM_TYPES)[number] | keyof typeof MIXTURES;

/** Replacement of a K format if a row is not a whole number of its blocks of 256 (llama.cpp's fallback). */
const FALLBACKS: Partial<Record<TensorTypeName, TensorTypeName>> = {
  Q2_K: 'IQ4_NL',
  Q3_K: 'IQ4_NL',
  IQ4_XS: 'IQ4_NL',
  IQ3_S: 'IQ4_NL',
  IQ3_XXS: 'IQ4_NL',
  IQ2_S: 'IQ4_NL',
  IQ2_XS: 'IQ4_NL',
  IQ2_XXS: 'IQ4_NL',
  IQ1_S: 'IQ4_NL',
  IQ1_M: 'IQ4_NL',
  Q4_K: 'Q5_0',
  Q5_K: 'Q5_1',
  Q6_K: 'Q8_0',
};

/**
 * The type of a matrix: in a uniform type that type; in a mixture as `llama_tensor_get_type` of llama.cpp's
 * `llama-quant.cpp` decides: all keep the output projection in Q6_K, Q4_K_M and Q5_K_M some layers' attn_v and ffn_down,
 * too; Q3_K_M has attn_v, attn_output and ffn_down in Q4_K, or Q5_K in the first layers. (llama.cpp's Q2_K and IQ4_XS are
 * mixtures by the name of a type; here these names mean the type.) MXFP4_MOE has experts in MXFP4 and the rest in Q8_0. A router
 * stays F32, and so does a convolution.
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
  if (name === 'ffn_gate_inp' || name === 'ssm_conv1d') return 'F32';
  const type = weights in MIXTURES ? mixtureType(weights as keyof typeof MIXTURES, shape, name, layer) : weights;
  return columns % 256 === 0
    ? (type as TensorTypeName)
    : (FALLBACKS[type as TensorTypeName] ?? (type as TensorTypeName));
}

function mixtureType(
  mixture: keyof typeof MIXTURES,
  { layers, tied }: Pick<ModelShape, 'layers' | 'tied'>,
  matrix: string,
  layer: number | undefined,
): TensorTypeName {
  if (mixture === 'MXFP4_MOE') return matrix.endsWith('_exps') ? 'MXFP4' : 'Q8_0';
  // Experts' are kept as the dense ones are.
  const name = matrix.replace(/_(exps|shexp)$/, '');
  const isOutput = name === 'output' || (tied && name === 'token_embd');
  if (mixture === 'Q3_K_M' && !isOutput) return typeInThreeBits(name, layer ?? 0, layers);
  const isFavoured = (name === 'attn_v' || name === 'ffn_down') && usesMoreBits(layer ?? 0, layers);
  return isOutput || isFavoured ? 'Q6_K' : MIXTURES[mixture];
}

function typeInThreeBits(name: string, layer: number, layers: number): TensorTypeName {
  if (name === 'attn_v') return layer < 2 ? 'Q5_K' : 'Q4_K';
  if (name === 'ffn_down') return layer < Math.floor(layers / 16) ? 'Q5_K' : 'Q4_K';
  return name === 'attn_output' ? 'Q4_K' : MIXTURES.Q3_K_M;
}

/** The first and the last eighth of the layers, and every third between. */
function usesMoreBits(layer: number, layers: number): boolean {
  const eighth = Math.floor(layers / 8);
  return layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2;
}
