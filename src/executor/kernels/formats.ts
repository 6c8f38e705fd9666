import { TENSOR_TYPES } from '../../lib/gguf/tensor-types.js';

/** Element types of activations, and of a KV cache that is not quantized. */
export type FloatType = 'f32' | 'f16';

/** Element types of weights that are no block formats. */
export type WeightFloatType = FloatType | 'bf16';

/** Element types that matrix units take. */
export type TileType = 'f16' | 'bf16';

/** Block formats that GPUs have planes for (`forge/packed.h`). */
export const PACKED_TYPES = [
  'q4_0',
  'q4_1',
  'q5_0',
  'q5_1',
  'q8_0',
  'q2_k',
  'q3_k',
  'q4_k',
  'q5_k',
  'q6_k',
  'iq4_nl',
  'iq4_xs',
  'mxfp4',
] as const;

export type PackedType = (typeof PACKED_TYPES)[number];

export function isPackedType(type: string): type is PackedType {
  return (PACKED_TYPES as readonly string[]).includes(type);
}

/** Block formats, as the file holds them: those, and those that name elements by tables (`forge/grid_blocks.h`). */
export const BLOCK_TYPES = [
  ...PACKED_TYPES,
  'iq3_s',
  'iq3_xxs',
  'iq2_s',
  'iq2_xs',
  'iq2_xxs',
  'iq1_s',
  'iq1_m',
] as const;

export type BlockType = (typeof BLOCK_TYPES)[number];

export function isBlockType(type: string): type is BlockType {
  return (BLOCK_TYPES as readonly string[]).includes(type);
}

/** Elements that share a scale in quantized activations, and their bytes: quants, scale, two sums (`forge/q8.h`). */
export const Q8_BLOCK = 32;

export const Q8_BLOCK_BYTES = 40;

/** Elements and bytes of one block. */
export function blockFormat(type: BlockType): { readonly blockElements: number; readonly blockBytes: number } {
  return TENSOR_TYPES[type.toUpperCase() as Uppercase<BlockType>];
}

/** All of them. */
export const FLOAT_TYPES: readonly FloatType[] = ['f32', 'f16'];

/** Element types of weights that are no block formats. */
export const WEIGHT_FLOAT_TYPES: readonly WeightFloatType[] = ['f32', 'f16', 'bf16'];

/** Element types that matrix units take. */
export const TILE_TYPES: readonly TileType[] = ['f16', 'bf16'];

export function isTileType(type: string): type is TileType {
  return (TILE_TYPES as readonly string[]).includes(type);
}
