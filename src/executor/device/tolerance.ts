/** Scalars and dimensions of a launch, by name. */
export type Sizes = Readonly<Record<string, number>>;

/** Largest distance of a kernel from its float64 reference, with the reason. */
export interface Tolerance {
  /** The formula and its argument, for the documentation. */
  readonly text: string;
  /**
   * The largest |difference| that is accepted for one element.
   *
   * @param magnitude what the reference says the element's rounding errors scale with: |element| unless it says otherwise
   */
  readonly bound: (sizes: Sizes, magnitude: number) => number;
}

/** Half an ulp of an f32 number near 1: the relative error of one rounding. */
export const F32_ROUNDING = 2 ** -24;
const F16_ROUNDING = 2 ** -11;
const F16_SMALLEST = 2 ** -24;
const BF16_ROUNDING = 2 ** -8;

/** The kernel gives the very bits of the reference. */
export const exact = (why: string): Tolerance => ({ text: `0: ${why}`, bound: () => 0 });

/** Values are copied. */
export const moved = exact('values are moved, not computed');

/** Results of f32 arithmetic on single elements. */
export const elementwise: Tolerance = {
  text: '1e-5 · max(1, |reference|): element-wise',
  bound: (_sizes, magnitude) => 1e-5 * Math.max(1, magnitude),
};

/** `roundings` f32 roundings of numbers as large as the magnitude, plus what the smallest f32 numbers lose. */
export const roundings = (text: string, count: (sizes: Sizes) => number): Tolerance => ({
  text,
  bound: (sizes, magnitude) => count(sizes) * (F32_ROUNDING * magnitude + 2 ** -126),
});

/** `tolerance`, with the result then stored as `type`. */
export function stored(type: 'f32' | 'f16' | 'bf16', tolerance: Tolerance): Tolerance {
  if (type === 'f32') return tolerance;
  const rounding = type === 'f16' ? F16_ROUNDING : BF16_ROUNDING;
  return {
    text: `${tolerance.text}; then one ${type} rounding`,
    bound: (sizes, magnitude) =>
      tolerance.bound(sizes, magnitude) * (1 + rounding) + rounding * magnitude + F16_SMALLEST,
  };
}
