import type { Reference } from '../support/compare.js';
import type { PagedCache } from '../support/paged.js';
import { type Rotation, rotate } from './rope.js';

/** Result of rope_kv_append for one row of qkv [heads + 2 * kv_heads, head_dim]. */
export interface AppendedRow {
  /** q rotated, k and v as they were: [heads + 2 * kv_heads, head_dim]. */
  readonly qkv: Required<Reference>;
  /** k rotated, v as it was: [kv_heads, head_dim] each. */
  readonly k: Required<Reference>;
  readonly v: Float32Array;
}

/** Rotates q in place and k for the cache by the row's position; v is stored as it is. */
export function ropeKvAppend(
  row: Float32Array,
  position: number,
  tables: { cosine: ArrayLike<number>; sine: ArrayLike<number> },
  { heads, kvHeads }: Pick<PagedCache, 'kvHeads'> & { heads: number },
  rotation: Rotation,
): AppendedRow {
  const { headDim } = rotation;
  const values = Float64Array.from(row);
  const magnitudes = values.map(Math.abs);
  const k = { values: new Float64Array(kvHeads * headDim), magnitudes: new Float64Array(kvHeads * headDim) };
  for (let head = 0; head < heads + kvHeads; head++) {
    const at = head * headDim;
    const rotated = rotate(row.subarray(at, at + headDim), tables.cosine, tables.sine, position, rotation);
    const [target, offset] = head < heads ? [{ values, magnitudes }, at] : [k, at - heads * headDim];
    target.values.set(rotated.values, offset);
    target.magnitudes.set(rotated.magnitudes, offset);
  }
  return { qkv: { values, magnitudes }, k, v: row.slice((heads + kvHeads) * headDim) };
}
