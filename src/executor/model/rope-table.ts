import { RocmForgeError } from '../../shared/errors.js';
import type { Rope, YarnRamp } from './values.js';

/** Cosines and sines of RoPE, each `[positions, rotary / 2]`. */
export interface RopeTable {
  readonly cosine: Float32Array;
  readonly sine: Float32Array;
}

/**
 * Cosine and sine of each position and frequency, in double precision, rounded once: kernels compute no sine or cosine,
 * because a GPU's own are off by 1e-2 at large angles.
 *
 * Angle = position / factor · base^(-2j / dimensions) / divisors[j]; Su et al. (2021), with linear position scaling, or with
 * YaRN's, which leaves a share of frequency j unscaled. Cosine and sine are multiplied by the magnitude, which multiplies a
 * score by its square.
 *
 * @param divisors llama.cpp's `freq_factors`, one per frequency; undefined: the model has none
 * @throws RocmForgeError `GGUF_INVALID` for divisors that are not as many as the frequencies, or not above 0
 */
export function ropeTable(
  { dimensions, base, factor, yarn, magnitude }: Omit<Rope, 'pairing' | 'divisors' | 'temperature'>,
  positions: number,
  divisors?: Float32Array,
): RopeTable {
  const frequencies = dimensions / 2;
  if (divisors && divisors.length !== frequencies) {
    throw new RocmForgeError(
      'GGUF_INVALID',
      `RoPE’s ${divisors.length} divisors are not as many as the ${frequencies} frequencies`,
    );
  }
  const wrong = divisors?.findIndex((divisor) => !(divisor > 0 && Number.isFinite(divisor))) ?? -1;
  if (wrong >= 0) throw new RocmForgeError('GGUF_INVALID', `RoPE’s divisors have ${divisors?.[wrong]} at ${wrong}`);
  const cosine = new Float32Array(positions * frequencies);
  const sine = new Float32Array(positions * frequencies);
  for (let j = 0; j < frequencies; j++) {
    const unscaled = base ** ((-2 * j) / dimensions) / (divisors?.[j] ?? 1);
    const kept = yarn ? keptByYarn(yarn, dimensions, base, j) : 0;
    const frequency = unscaled * kept + (unscaled / factor) * (1 - kept);
    for (let position = 0; position < positions; position++) {
      cosine[position * frequencies + j] = magnitude * Math.cos(position * frequency);
      sine[position * frequencies + j] = magnitude * Math.sin(position * frequency);
    }
  }
  return { cosine, sine };
}

/**
 * The share of frequency j that is not stretched: 1 for those that turn at least `betaFast` times within the original
 * context, 0 for those that turn at most `betaSlow` times, and between them by their place. Places are rounded outwards, as
 * the authors' and llama.cpp's are.
 */
function keptByYarn(
  { extrapolation, betaFast, betaSlow, originalContextLength }: YarnRamp,
  dimensions: number,
  base: number,
  j: number,
): number {
  const placeOf = (rotations: number): number =>
    (dimensions * Math.log(originalContextLength / (rotations * 2 * Math.PI))) / (2 * Math.log(base));
  const first = Math.max(0, Math.floor(placeOf(betaFast)));
  const last = Math.min(dimensions - 1, Math.ceil(placeOf(betaSlow)));
  const stretched = Math.min(1, Math.max(0, (j - first) / Math.max(0.001, last - first)));
  return (1 - stretched) * extrapolation;
}
