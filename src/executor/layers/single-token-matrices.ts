// Matrices that single-token steps may multiply, and the sizes of their launches.
import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Matrix } from '../model/matrix.js';

/** A weight of a product of several, and the first element of theirs that is its own. */
export interface ProductPart {
  readonly matrix: Matrix;
  readonly column: number;
}

export function isPacked({ layout, type }: Matrix): boolean {
  return layout === 'planes' && kernels.isPackedType(type);
}

/** True if one launch multiplies all of them, whatever their types. */
export function takesParts(parts: readonly ProductPart[]): boolean {
  const isWhole = ({ matrix }: ProductPart) => isPacked(matrix) && matrix.rows % kernels.MATMUL_PACKED_ROWS === 0;
  return parts.length <= kernels.MOST_PARTS && parts.every(isWhole);
}

/** True if matrix units multiply the matrix as its file has it. */
export function isTile({ layout, type, columns }: Matrix): boolean {
  return layout === 'file' && kernels.isTileType(type) && columns % kernels.TILE_INPUT_MULTIPLE === 0;
}

export const fragmentSizes = ({ rows, columns }: Matrix) => ({
  ...{ tiles: kernels.tilesOf(rows), chunks: kernels.chunksOf(columns) },
  parts: kernels.normParts(columns),
});

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

export const formatOf = ({ type }: Matrix): kernels.FragmentFormat =>
  kernels.fragmentFormat(type as kernels.FragmentType);

export function fitsRow(matrix: Matrix): boolean {
  return matrix.layout === 'fragments' && kernels.fitsRow(matrix.columns);
}

export function packedSizes(type: kernels.PackedType, columns: number) {
  const row_bytes = kernels.packedRowBytes(type, columns);
  return { row_bytes, in: columns, parts: kernels.normParts(columns) };
}

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
