import { RocmForgeError } from '../../shared/errors.js';
import type { Rope } from './values.js';

/** Cosines and sines of RoPE, each `[positions, rotary / 2]`. */
export interface RopeTable {
  readonly cosine: Float32Array;
  readonly sine: Float32Array;
}

/**
 * The rotation of each position and frequency, in double precision, rounded once: kernels compute no sine or cosine,
 * because a GPU's own are off by 1e-2 at large angles.
 *
 * Angle = position / factor · base^(-2j / rotary) / divisors[j]; Su et al. (2021), with linear position scaling. Both are
 * multiplied by the magnitude, so that a score is by its square.
 *
 * @param divisors the model's `rope_freqs.weight`, one a frequency, where it has one
 * @throws RocmForgeError `GGUF_INVALID` for divisors that are not as many as the frequencies, or not above 0
 */
export function ropeTable(
  { dimensions, base, factor, magnitude }: Pick<Rope, 'dimensions' | 'base' | 'factor' | 'magnitude'>,
  positions: number,
  divisors?: Float32Array,
): RopeTable {
  const frequencies = dimensions / 2;
  if (divisors && divisors.length !== frequencies) {
    throw new RocmForgeError(
      'GGUF_INVALID',
      `rope_freqs.weight has ${divisors.length} elements, the model has ${frequencies} frequencies`,
    );
  }
  const wrong = divisors?.findIndex((divisor) => !(divisor > 0 && Number.isFinite(divisor))) ?? -1;
  if (wrong >= 0) throw new RocmForgeError('GGUF_INVALID', `rope_freqs.weight has ${divisors?.[wrong]} at ${wrong}`);
  const cosine = new Float32Array(positions * frequencies);
  const sine = new Float32Array(positions * frequencies);
  for (let j = 0; j < frequencies; j++) {
    const frequency = base ** ((-2 * j) / dimensions) / (divisors?.[j] ?? 1) / factor;
    for (let position = 0; position < positions; position++) {
      cosine[position * frequencies + j] = magnitude * Math.cos(position * frequency);
      sine[position * frequencies + j] = magnitude * Math.sin(position * frequency);
    }
  }
  return { cosine, sine };
}
