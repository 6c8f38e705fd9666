import { type DeviceBuffer, DTYPE_BYTES } from '../device/device.js';
import { type BlockType, FRAGMENT_TILE_ROWS, type WeightFloatType } from '../kernels/index.js';

/** As rows lie in the file; blocks in planes, for GPUs; or in the fragments of Hopper's matrix instructions. */
export type MatrixLayout = 'file' | 'planes' | 'fragments';

/** A weight matrix `[rows, columns]` on the device, in the element type or the blocks the file gives it. */
export interface Matrix {
  readonly type: WeightFloatType | BlockType;
  readonly layout: MatrixLayout;
  readonly buffer: DeviceBuffer;
  readonly rows: number;
  readonly columns: number;
  /** Number of such matrices behind each other, one an expert; undefined: it is one. */
  readonly experts?: number;
}

/** The matrices as one, rows below each other, when their memory follows on; else undefined. */
export function joined(matrices: readonly Matrix[]): Matrix | undefined {
  const [first, ...others] = matrices as readonly [Matrix, ...Matrix[]];
  let rows = first.rows;
  let elements = first.buffer.elements;
  for (const { type, layout, buffer, rows: more, columns } of others) {
    const follows = first.buffer.address + elements * DTYPE_BYTES[first.buffer.dtype] === buffer.address;
    if (!follows || type !== first.type || layout !== first.layout || columns !== first.columns) return undefined;
    // Tiles are of one matrix.
    if (layout === 'fragments' && rows % FRAGMENT_TILE_ROWS !== 0) return undefined;
    rows += more;
    elements += buffer.elements;
  }
  return { ...first, rows, buffer: { ...first.buffer, elements } };
}

/** The first rows of a matrix. */
export function firstRows(matrix: Matrix, rows: number): Matrix {
  // Elements of tiles beyond the rows are not computed.
  if (matrix.layout === 'fragments') return { ...matrix, rows };
  const elements = (matrix.buffer.elements / matrix.rows) * rows;
  return { ...matrix, rows, buffer: { ...matrix.buffer, elements } };
}
