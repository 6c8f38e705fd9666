import type { Reference } from '../support/compare.js';

/** Pairing of a head's elements, and the pairs that are rotated. */
export interface Rotation {
  readonly headDim: number;
  /** Elements that turn; the rest is copied. */
  readonly rotary: number;
  /** Pairs (2j, 2j + 1); else (j, j + rotary / 2). */
  readonly adjacent: boolean;
}

/** cos and sin of every position's angles, [positions, rotary / 2] each, theta = base^(-2j / rotary). */
export function ropeTables(
  positions: number,
  rotary: number,
  base = 10_000,
): { cosine: Float32Array; sine: Float32Array } {
  const half = rotary / 2;
  const angle = (i: number) => Math.floor(i / half) * base ** ((-2 * (i % half)) / rotary);
  const cosine = Float32Array.from({ length: positions * half }, (_, i) => Math.cos(angle(i)));
  const sine = Float32Array.from({ length: positions * half }, (_, i) => Math.sin(angle(i)));
  return { cosine, sine };
}

/** One head's vector, rotated by the angles of `position`. Magnitudes: |a| + |b| of a pair (a, b). */
export function rotate(
  vector: ArrayLike<number>,
  cosine: ArrayLike<number>,
  sine: ArrayLike<number>,
  position: number,
  { headDim, rotary, adjacent }: Rotation,
): Required<Reference> {
  const values = Float64Array.from({ length: headDim }, (_, i) => vector[i]!);
  const magnitudes = values.map(Math.abs);
  const half = rotary / 2;
  for (let j = 0; j < half; j++) {
    const [a, b] = adjacent ? [2 * j, 2 * j + 1] : [j, j + half];
    const c = cosine[position * half + j]!;
    const s = sine[position * half + j]!;
    const [x, y] = [vector[a]!, vector[b]!];
    values[a] = x * c - y * s;
    values[b] = x * s + y * c;
    magnitudes[a] = magnitudes[b] = Math.abs(x) + Math.abs(y);
  }
  return { values, magnitudes };
}
