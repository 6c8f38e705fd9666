import type { Reference } from '../support/compare.js';
import type { DeltaShape, ReplayRow, StateSlice } from './delta_net.js';
import { silu } from './swiglu.js';

const TAPS = 4;

/**
 * The convolution of x, `[rows, channels]`, with what was kept, `[states, 3, channels]`; silu; q's and k's heads divided by
 * their lengths. @returns the rows, and what is kept after them
 */
export function deltaConv(
  x: ArrayLike<number>,
  weight: ArrayLike<number>,
  kept: ArrayLike<number>,
  slices: readonly StateSlice[],
  replay: readonly Pick<ReplayRow, 'x'>[],
  { keyHeads, valueHeads, dim, eps }: DeltaShape & { readonly eps: number },
): { readonly y: Reference; readonly kept: Float64Array } {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const rows = slices.reduce((sum, slice) => sum + slice.rows, 0);
  const [values, magnitudes] = [new Float64Array(rows * channels), new Float64Array(rows * channels)];
  const next = Float64Array.from(kept);
  for (const { first, rows: count, source, target, isBefore, replayed, replayRow } of slices) {
    const at = (place: number, channel: number): number => {
      if (place >= 0) return x[(first + place) * channels + channel]!;
      const back = place + replayed;
      if (back >= 0) return replay[replayRow + back]!.x[channel]!;
      return source === undefined ? 0 : kept[(source * (TAPS - 1) + TAPS - 1 + back) * channels + channel]!;
    };
    for (let row = 0; row < count; row++) {
      for (let channel = 0; channel < channels; channel++) {
        let [sum, size] = [0, 0];
        for (let j = 0; j < TAPS; j++) {
          const product = at(row - TAPS + 1 + j, channel) * weight[channel * TAPS + j]!;
          sum += product;
          size += Math.abs(product);
        }
        const i = (first + row) * channels + channel;
        values[i] = silu(sum);
        // silu is at most 1.1 times as steep as its argument.
        magnitudes[i] = 1.1 * size + Math.abs(values[i]!);
      }
      for (let head = 0; head < 2 * keyHeads; head++) {
        const start = (first + row) * channels + head * dim;
        const of = (array: Float64Array) =>
          Math.sqrt(array.subarray(start, start + dim).reduce((s, v) => s + v * v, 0));
        const [length, error] = [Math.max(of(values), eps), of(magnitudes)];
        for (let i = start; i < start + dim; i++) {
          values[i] = values[i]! / length;
          magnitudes[i] = (magnitudes[i]! + Math.abs(values[i]!) * error) / length;
        }
      }
    }
    if (target === undefined) continue;
    const end = isBefore ? 0 : count;
    for (let j = 0; j < TAPS - 1; j++)
      for (let channel = 0; channel < channels; channel++)
        next[(target * (TAPS - 1) + j) * channels + channel] = at(end - TAPS + 1 + j, channel);
  }
  return { y: { values, magnitudes }, kept: next };
}
