import type { Reference } from '../support/compare.js';
import { rmsNorm } from './rms_norm.js';
import { rotate } from './rope.js';

/** One row `[latent | rotary]`: its first part normed, the rest rotated by the angles of `position`. */
export function latentAppend(
  row: Float32Array,
  weight: Float32Array,
  tables: { readonly cosine: Float32Array; readonly sine: Float32Array },
  position: number,
  { latent, adjacent, eps }: { readonly latent: number; readonly adjacent: boolean; readonly eps: number },
): Required<Reference> {
  const rotary = row.length - latent;
  const normed = rmsNorm(row.subarray(0, latent), weight, latent, eps);
  const rotated = rotate(row.subarray(latent), tables.cosine, tables.sine, position, {
    ...{ headDim: rotary, rotary, adjacent },
  });
  return {
    values: Float64Array.from([...normed, ...rotated.values]),
    magnitudes: Float64Array.from([...normed.map(Math.abs), ...rotated.magnitudes]),
  };
}
