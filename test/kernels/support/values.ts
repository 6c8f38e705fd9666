import fc from 'fast-check';
import { Random } from '../../support/random.js';

export { Random };

/**
 * Content of a buffer. `normal`: within ±4; `wide`: 1e-6 to 1e4 and zeros; `denormal`: below 1e-38;
 * `special`: `normal` with some ±inf and NaN; `infinite`: `normal` with some -inf.
 */
export type Fill = 'normal' | 'wide' | 'zeros' | 'ones' | 'denormal' | 'special' | 'infinite';

/** Fills whose sums and products stay within f32. */
export const FINITE: readonly Fill[] = ['normal', 'wide', 'zeros', 'ones', 'denormal'];

export function fill(kind: Fill, n: number, random: Random): Float32Array {
  const values = new Float32Array(n);
  for (let i = 0; i < n; i++) values[i] = element(kind, random);
  return values;
}

function element(kind: Fill, random: Random): number {
  const uniform = random.next() * 2 - 1;
  switch (kind) {
    case 'zeros':
      return uniform < 0 ? -0 : 0;
    case 'ones':
      return 1;
    case 'denormal':
      return uniform * 1e-39;
    case 'wide':
      return random.next() < 0.1 ? 0 : Math.sign(uniform) * 10 ** (random.next() * 10 - 6);
    case 'special': {
      const pick = random.below(40);
      if (pick > 2) return uniform * 4;
      return [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY][pick]!;
    }
    case 'infinite':
      return random.next() < 0.2 ? Number.NEGATIVE_INFINITY : uniform * 4;
    default:
      return uniform * 4;
  }
}

/** Whole numbers near the borders that kernels have: one, SIMD widths, waves, blocks, and one more or less. */
export function size(max: number): fc.Arbitrary<number> {
  const borders = [1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 257, 511, 513, 1023, 1025];
  return fc.oneof(fc.constantFrom(...borders.filter((n) => n <= max)), fc.integer({ min: 1, max }));
}

export const seed: fc.Arbitrary<number> = fc.integer({ min: 0, max: 2 ** 30 });
export const fills = (...kinds: readonly Fill[]): fc.Arbitrary<Fill> => fc.constantFrom(...kinds);
