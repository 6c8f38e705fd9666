/** Layout of one tensor type: blocks of `blockElements` neighbours of the innermost dimension. */
export interface TensorType {
  /** The number in the file (`enum ggml_type` of ggml.h). */
  readonly id: number;
  /** Elements a block. */
  readonly blockElements: number;
  /** Bytes a block. */
  readonly blockBytes: number;
}

/**
 * Every tensor type a GGUF file may hold. Ids 4, 5, 31..33 and 36..38 were withdrawn from the format.
 * True if the executor can compute with a type is the executor's business; here it is only measured.
 */
export const TENSOR_TYPES = {
  F32: { id: 0, blockElements: 1, blockBytes: 4 },
  F16: { id: 1, blockElements: 1, blockBytes: 2 },
  Q4_0: { id: 2, blockElements: 32, blockBytes: 18 },
  Q4_1: { id: 3, blockElements: 32, blockBytes: 20 },
  Q5_0: { id: 6, blockElements: 32, blockBytes: 22 },
  Q5_1: { id: 7, blockElements: 32, blockBytes: 24 },
  Q8_0: { id: 8, blockElements: 32, blockBytes: 34 },
  Q8_1: { id: 9, blockElements: 32, blockBytes: 36 },
  Q2_K: { id: 10, blockElements: 256, blockBytes: 84 },
  Q3_K: { id: 11, blockElements: 256, blockBytes: 110 },
  Q4_K: { id: 12, blockElements: 256, blockBytes: 144 },
  Q5_K: { id: 13, blockElements: 256, blockBytes: 176 },
  Q6_K: { id: 14, blockElements: 256, blockBytes: 210 },
  Q8_K: { id: 15, blockElements: 256, blockBytes: 292 },
  IQ2_XXS: { id: 16, blockElements: 256, blockBytes: 66 },
  IQ2_XS: { id: 17, blockElements: 256, blockBytes: 74 },
  IQ3_XXS: { id: 18, blockElements: 256, blockBytes: 98 },
  IQ1_S: { id: 19, blockElements: 256, blockBytes: 50 },
  IQ4_NL: { id: 20, blockElements: 32, blockBytes: 18 },
  IQ3_S: { id: 21, blockElements: 256, blockBytes: 110 },
  IQ2_S: { id: 22, blockElements: 256, blockBytes: 82 },
  IQ4_XS: { id: 23, blockElements: 256, blockBytes: 136 },
  I8: { id: 24, blockElements: 1, blockBytes: 1 },
  I16: { id: 25, blockElements: 1, blockBytes: 2 },
  I32: { id: 26, blockElements: 1, blockBytes: 4 },
  I64: { id: 27, blockElements: 1, blockBytes: 8 },
  F64: { id: 28, blockElements: 1, blockBytes: 8 },
  IQ1_M: { id: 29, blockElements: 256, blockBytes: 56 },
  BF16: { id: 30, blockElements: 1, blockBytes: 2 },
  TQ1_0: { id: 34, blockElements: 256, blockBytes: 54 },
  TQ2_0: { id: 35, blockElements: 256, blockBytes: 66 },
  MXFP4: { id: 39, blockElements: 32, blockBytes: 17 },
  NVFP4: { id: 40, blockElements: 64, blockBytes: 36 },
  Q1_0: { id: 41, blockElements: 128, blockBytes: 18 },
  Q2_0: { id: 42, blockElements: 64, blockBytes: 18 },
} as const satisfies Readonly<Record<string, TensorType>>;

export type TensorTypeName = keyof typeof TENSOR_TYPES;

const NAMES_BY_ID: ReadonlyMap<number, TensorTypeName> = new Map(
  Object.entries(TENSOR_TYPES).map(([name, { id }]) => [id, name as TensorTypeName]),
);

/** The name of a type id found in a file, or `undefined` for an id this table does not know. */
export function tensorTypeById(id: number): TensorTypeName | undefined {
  return NAMES_BY_ID.get(id);
}

/**
 * Bytes a tensor occupies, without padding.
 *
 * @param dims GGUF order, innermost first; a scalar is `[]`
 * @throws RangeError when a row does not consist of whole blocks
 */
export function tensorBytes(type: TensorTypeName, dims: readonly number[]): number {
  const { blockElements, blockBytes } = TENSOR_TYPES[type];
  const row = dims[0] ?? 1;
  if (row % blockElements !== 0) {
    throw new RangeError(`a ${type} row of ${row} elements is not a multiple of ${blockElements}`);
  }
  return dims.slice(1).reduce((bytes, dim) => bytes * dim, (row / blockElements) * blockBytes);
}

/** Elements in a tensor of these dims. */
export function tensorElements(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}
