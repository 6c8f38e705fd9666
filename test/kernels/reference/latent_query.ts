import type { Reference } from '../support/compare.js';
import { rotate } from './rope.js';

/** Sizes of queries of latent attention. */
export interface LatentSizes {
  readonly heads: number;
  readonly plain: number;
  readonly latent: number;
  readonly rotary: number;
}

/** Plain parts `[heads, rows, plain]`, and the rotated ones where they belong in `absorbed`, `[rows, heads + 2, latent + rotary]`. */
export function latentQuery(
  query: Float32Array,
  absorbed: Float32Array,
  tables: { readonly cosine: Float32Array; readonly sine: Float32Array },
  positions: ArrayLike<number>,
  { heads, plain, latent, rotary }: LatentSizes,
  adjacent: boolean,
): { readonly plainParts: Float32Array; readonly absorbed: Required<Reference> } {
  const rows = positions.length;
  const plainParts = new Float32Array(heads * rows * plain);
  const values = Float64Array.from(absorbed);
  const magnitudes = new Float64Array(values.length);
  for (let row = 0; row < rows; row++) {
    for (let head = 0; head < heads; head++) {
      const from = (row * heads + head) * (plain + rotary);
      plainParts.set(query.subarray(from, from + plain), (head * rows + row) * plain);
      const tail = query.subarray(from + plain, from + plain + rotary);
      const rotated = rotate(tail, tables.cosine, tables.sine, positions[row]!, { headDim: rotary, rotary, adjacent });
      const to = (row * (heads + 2) + head) * (latent + rotary) + latent;
      values.set(rotated.values, to);
      magnitudes.set(rotated.magnitudes, to);
    }
  }
  return { plainParts, absorbed: { values, magnitudes } };
}
