import { Random } from './random.js';

const draw = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());

/** Numbers that are kept of each seed: most random models have one of three, and drawing numbers takes most of their time. */
const MOST_KEPT = 1 << 20;
const kept = new Map<number, { readonly random: Random; readonly values: Float64Array; count: number }>();

/** Standard normal numbers (Box-Muller). */
export function gaussian(seed: number): () => number {
  const first = kept.get(seed) ?? { random: new Random(seed), values: new Float64Array(MOST_KEPT), count: 0 };
  kept.set(seed, first);
  let at = 0;
  let own: Random | undefined;
  return () => {
    if (at < first.count) return first.values[at++]!;
    if (at === MOST_KEPT) {
      own ??= first.random.copy();
      return draw(own);
    }
    const value = draw(first.random);
    first.values[first.count++] = value;
    at += 1;
    return value;
  };
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

/** Fills bytes with the same numbers in each run; Marsaglia (2003). */
export function fillRandomly(bytes: Uint8Array): void {
  let state = 2_463_534_242;
  const words = new Int32Array(bytes.buffer, 0, Math.floor(bytes.length / 4));
  for (let i = 0; i < words.length; i++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    words[i] = state;
  }
}
