import { type DeviceBuffer, DTYPE_BYTES } from '../device/device.js';
import type { BlockType, WeightFloatType } from '../kernels/index.js';

/** A weight matrix `[rows, columns]` on the device, in the element type or the blocks the file gives it. */
export interface Matrix {
  readonly type: WeightFloatType | BlockType;
  /** Blocks as they lie in the file, or repacked for GPUs. */
  readonly packed: boolean;
  readonly buffer: DeviceBuffer;
  readonly rows: number;
  readonly columns: number;
}

/** The matrices as one, rows below each other, when their memory follows on; else undefined. */
export function joined(matrices: readonly Matrix[]): Matrix | undefined {
  const [first, ...others] = matrices as readonly [Matrix, ...Matrix[]];
  let rows = first.rows;
  let elements = first.buffer.elements;
  for (const { type, packed, buffer, rows: more, columns } of others) {
    const follows = first.buffer.address + elements * DTYPE_BYTES[first.buffer.dtype] === buffer.address;
    if (!follows || type !== first.type || packed !== first.packed || columns !== first.columns) return undefined;
    rows += more;
    elements += buffer.elements;
  }
  return { ...first, rows, buffer: { ...first.buffer, elements } };
}

/** The first rows of a matrix. */
export function firstRows(matrix: Matrix, rows: number): Matrix {
  const elements = (matrix.buffer.elements / matrix.rows) * rows;
  return { ...matrix, rows, buffer: { ...matrix.buffer, elements } };
}
