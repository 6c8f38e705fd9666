import { Random } from './random.js';

/** Standard normal numbers (Box-Muller). */
export function gaussian(seed: number): () => number {
  const random = new Random(seed);
  return () => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}

/** f32 to f16 bits, rounded to nearest even; the values here are normal numbers of moderate size. */
export function toHalves(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer);
  return Uint16Array.from(bits, (word) => {
    const sign = (word >>> 16) & 0x8000;
    const magnitude = word & 0x7fffffff;
    if (magnitude < 0x38800000) return sign;
    const rounded = magnitude + 0xfff + ((magnitude >>> 13) & 1);
    return sign | ((rounded - 0x38000000) >>> 13);
  });
}
