import type { Reference } from '../support/compare.js';
import type { PlainSlice } from '../support/slices.js';
import { silu } from './swiglu.js';

/**
 * y = silu(bias + sum_j weight[j] · x[t - taps + 1 + j]) of each channel; rows before a slice are those that its source keeps.
 *
 * @param x `[rows, channels]`
 * @param kept `[states, taps - 1, channels]`
 * @returns y, and what is kept after it
 */
export function causalConv(
  x: ArrayLike<number>,
  weight: ArrayLike<number>,
  bias: ArrayLike<number>,
  kept: ArrayLike<number>,
  slices: readonly PlainSlice[],
  { channels, taps }: { readonly channels: number; readonly taps: number },
): { readonly y: Reference; readonly kept: Float64Array } {
  const rows = x.length / channels;
  const [values, magnitudes] = [new Float64Array(rows * channels), new Float64Array(rows * channels)];
  const next = Float64Array.from(kept);
  for (const { first, rows: count, source, target } of slices) {
    const at = (place: number, channel: number): number => {
      if (place >= 0) return x[(first + place) * channels + channel]!;
      return source === undefined ? 0 : kept[(source * (taps - 1) + taps - 1 + place) * channels + channel]!;
    };
    for (let row = 0; row < count; row++) {
      for (let channel = 0; channel < channels; channel++) {
        const i = (first + row) * channels + channel;
        let [sum, size] = [bias[channel]!, Math.abs(bias[channel]!)];
        for (let j = 0; j < taps; j++) {
          const product = at(row - taps + 1 + j, channel) * weight[channel * taps + j]!;
          sum += product;
          size += Math.abs(product);
        }
        values[i] = silu(sum);
        magnitudes[i] = size;
      }
    }
    for (let j = 0; j < taps - 1; j++)
      for (let channel = 0; channel < channels; channel++)
        next[(target * (taps - 1) + j) * channels + channel] = at(count - taps + 1 + j, channel);
  }
  return { y: { values, magnitudes }, kept: next };
}
