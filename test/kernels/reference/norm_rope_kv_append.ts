import type { PagedCache } from '../support/paged.js';
import { headNorm } from './head_norm.js';
import type { Rotation } from './rope.js';
import { type AppendedRow, ropeKvAppend } from './rope_kv_append.js';

/** Reference of norm_rope_kv_append for one row of qkv [heads + 2 * kv_heads, head_dim]; the norms are rounded to f32. */
export function normRopeKvAppend(
  row: Float32Array,
  norms: { readonly query: ArrayLike<number>; readonly key: ArrayLike<number>; readonly eps: number },
  position: number,
  tables: { cosine: ArrayLike<number>; sine: ArrayLike<number> },
  { heads, kvHeads }: Pick<PagedCache, 'kvHeads'> & { heads: number },
  rotation: Rotation,
): AppendedRow {
  const sizes = { heads, kvHeads, headDim: rotation.headDim, eps: norms.eps };
  const normed = Float32Array.from(headNorm(row, norms.query, norms.key, sizes));
  return ropeKvAppend(normed, position, tables, { heads, kvHeads }, rotation);
}
