import type { TileType } from '../../../src/executor/kernels/index.js';
import { matmulTileNormed } from './matmul_tile_normed.js';
import { silu } from './swiglu.js';

/** silu(gate · norm(x)) * (up · norm(x)) of one row before it is stored; weight [2, ffn, hidden]. */
export function gateUpTileNormed(
  type: TileType,
  weight: ArrayLike<number>,
  x: Float32Array,
  norm: Float32Array,
  ffn: number,
  eps: number,
): Float64Array {
  const { values } = matmulTileNormed(type, weight, x, norm, 2 * ffn, eps);
  return values.slice(0, ffn).map((gate, n) => silu(gate) * values[ffn + n]!);
}
