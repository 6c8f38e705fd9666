import type { TileType } from '../../../src/executor/kernels/index.js';
import type { Reference } from '../support/compare.js';
import { decode, encode } from '../support/half.js';
import { matmul } from './matmul.js';
import { rmsNorm } from './rms_norm.js';

/** weight · norm(x) of one row, its norm rounded from double precision: it may be the next 16-bit float to that of f32. */
export function matmulTileNormed(
  type: TileType,
  weight: ArrayLike<number>,
  x: Float32Array,
  norm: Float32Array,
  out: number,
  eps: number,
): Required<Reference> {
  const normed = decode(type, encode(type, Float32Array.from(rmsNorm(x, norm, x.length, eps))));
  return matmul(weight, normed, out, x.length);
}
