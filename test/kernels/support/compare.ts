import path from 'node:path';
import type { KernelContract } from '../../../src/executor/device/contract.js';
import type { Sizes } from '../../../src/executor/device/tolerance.js';

/** A kernel's result in float64. */
export interface Reference {
  readonly values: Float64Array;
  /** Magnitudes that each element's rounding errors scale with; |values| when left out. */
  readonly magnitudes?: Float64Array;
}

interface Worst {
  error: number;
  share: number;
  launches: number;
}
const worst = new Map<string, Worst>();

/**
 * Holds a kernel's result against its reference, within the contract's tolerance. NaN equals NaN and an infinity itself;
 * a reference too large for f32 counts as infinite.
 *
 * @throws Error naming the worst element
 */
export function expectClose(
  contract: KernelContract,
  actual: ArrayLike<number>,
  expected: Reference,
  sizes: Sizes,
): void {
  const { values, magnitudes } = expected;
  if (actual.length !== values.length) throw new Error(`${actual.length} elements, expected ${values.length}`);
  const operation = path.basename(contract.source, '.hip');
  const entry = worst.get(operation) ?? { error: 0, share: 0, launches: 0 };
  worst.set(operation, entry);
  entry.launches += 1;
  for (let i = 0; i < values.length; i++) {
    const reference = values[i]!;
    const rounded = Math.fround(reference);
    const value = actual[i]!;
    if (Object.is(value, rounded) || value === rounded) continue;
    const bound = contract.tolerance.bound(sizes, magnitudes?.[i] ?? Math.abs(reference));
    const error = Math.abs(value - reference);
    if (!(error <= bound)) {
      throw new Error(
        `${contract.name}: element ${i} of ${values.length} is ${value}, expected ${reference}; ` +
          `difference ${error}, accepted ${bound}`,
      );
    }
    entry.error = Math.max(entry.error, error);
    entry.share = Math.max(entry.share, error / bound);
  }
}

/** Rows of a matrix in an array that has elements between them, and after the last. */
export interface Strides {
  /** Elements of a row. */
  readonly out: number;
  /** Elements from one row's first to the next one's. */
  readonly stride: number;
  /** Elements of the array. */
  readonly length: number;
}

/**
 * A reference as it lies in an array that held one value before.
 *
 * @param expected   rows without gaps, fewer than the array holds where a step has fewer
 * @param before     what all elements held
 * @param isAddition whether rows are added to what was there, instead of taking its place
 */
export function inStrides(
  expected: Required<Reference>,
  { out, stride, length }: Strides,
  before: number,
  isAddition = false,
): Required<Reference> {
  const values = new Float64Array(length).fill(before);
  const magnitudes = new Float64Array(length);
  for (let i = 0; i < expected.values.length; i++) {
    const at = Math.floor(i / out) * stride + (i % out);
    values[at] = expected.values[i]! + (isAddition ? before : 0);
    magnitudes[at] = expected.magnitudes[i]! + (isAddition ? Math.abs(before) : 0);
  }
  return { values, magnitudes };
}

/** Prints, for each kernel file since the last call, how many results were compared and the largest error. */
export function printErrors(target: string): void {
  for (const [kernel, { error, share, launches }] of worst) {
    const part = `${(100 * share).toFixed(0)} % of what is accepted`;
    console.log(`${kernel} on ${target}: ${launches} results, largest error ${error.toExponential(1)}, ${part}`);
  }
  worst.clear();
}

/**
 * Holds a filter's result against which elements are to be kept: those stay as they are, the others become -inf, and
 * where `kept` is undefined either is right.
 *
 * @throws Error naming the first wrong element
 */
export function expectKept(
  actual: ArrayLike<number>,
  before: ArrayLike<number>,
  kept: readonly (boolean | undefined)[],
): void {
  kept.forEach((keep, i) => {
    const stays = Object.is(actual[i], before[i]);
    const masked = actual[i] === Number.NEGATIVE_INFINITY;
    if (keep === true ? stays : keep === false ? masked : stays || masked) return;
    throw new Error(`element ${i} of ${kept.length}, ${before[i]}, became ${actual[i]}; to be kept: ${keep}`);
  });
}
