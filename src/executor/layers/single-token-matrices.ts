// Joint launches of several matrices in single-token steps, and the sizes of these launches.
import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Matrix } from '../model/matrix.js';
import { formatOf, fragmentSizes, fragmentsLayout } from './layouts/fragments.js';
import { layoutOf } from './layouts/index.js';
import { planesLayout } from './layouts/planes.js';
import type { Products } from './products.js';

/** A weight of a product of several, and the first element of theirs that is its own. */
export interface ProductPart {
  readonly matrix: Matrix;
  readonly column: number;
}

/** Single-token launches of a matrix; undefined if it has none. */
export const singleTokenOf = (matrix: Matrix) => layoutOf(matrix, true).singleToken(matrix);

/** True if one launch multiplies all of them, whatever their types. */
export function takesParts(parts: readonly ProductPart[]): boolean {
  const isWhole = ({ matrix }: ProductPart) =>
    layoutOf(matrix, true) === planesLayout && matrix.rows % kernels.MATMUL_PACKED_ROWS === 0;
  return parts.length <= kernels.MOST_PARTS && parts.every(isWhole);
}

/** Launch that multiplies both matrices; undefined unless they are two of such formats. */
export function pairOf(parts: readonly ProductPart[]) {
  const [first, second] = parts.map(({ matrix }) => matrix);
  if (first === undefined || second === undefined || parts.length > 2) return undefined;
  if (![first, second].every((matrix) => fitsRow(matrix) && isWholeGroups(matrix.rows))) return undefined;
  const formats = kernels.formatPair(formatOf(first), formatOf(second));
  if (formats === undefined) return undefined;
  const { tiles: tiles_0, chunks, parts: squares } = fragmentSizes(first);
  return {
    formats,
    values: {
      ...{ weight_0: first.buffer, weight_1: second.buffer, out_0: first.rows, out_1: second.rows },
      ...{ in: first.columns, blocks_0: kernels.pairBlocks(formats, first.rows, second.rows) },
    },
    dims: { tiles_0, tiles_1: kernels.tilesOf(second.rows), chunks, parts: squares },
  };
}

export const isWholeGroups = (rows: number): boolean => rows % kernels.LINEAR_DECODE_ROWS === 0;

export const isFragments = (matrix: Matrix): boolean => layoutOf(matrix, true) === fragmentsLayout;

export const fitsRow = (matrix: Matrix): boolean => isFragments(matrix) && kernels.fitsRow(matrix.columns);

/** Arguments of one weight in a launch of several. */
interface PackedPart {
  readonly weight: DeviceBuffer;
  readonly out: number;
  readonly type: number;
  readonly bytes: number;
}

/** Arguments of a launch for up to three weights of one input: an absent weight has no rows. */
export function packedParts(parts: readonly ProductPart[]): [PackedPart, PackedPart, PackedPart] {
  const first = (parts[0] as ProductPart).matrix;
  return [0, 1, 2].map((i) => {
    const { type, rows, buffer } = parts[i]?.matrix ?? { ...first, rows: 0 };
    const packed = type as kernels.PackedType;
    return {
      weight: buffer,
      out: rows,
      type: kernels.PACKED_TYPES.indexOf(packed),
      bytes: kernels.packedRowBytes(packed, first.columns),
    };
  }) as [PackedPart, PackedPart, PackedPart];
}

/** Matrices that one launch multiplies. */
export function partsOf(products: Pick<Products, 'eachJoined'>, matrices: readonly Matrix[]): readonly ProductPart[] {
  const parts: ProductPart[] = [];
  products.eachJoined(matrices, (matrix, column) => parts.push({ matrix, column }));
  return parts;
}
