import type { Reference } from '../support/compare.js';
import { silu } from './swiglu.js';

/** Rows of one sequence, and which states they go from and to; no source: all zero. */
export interface StateSlice {
  readonly first: number;
  readonly rows: number;
  readonly source: number | undefined;
  readonly target: number;
}

export interface DeltaShape {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
}

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
  { keyHeads, valueHeads, dim, eps }: DeltaShape & { readonly eps: number },
): { readonly y: Reference; readonly kept: Float64Array } {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const rows = slices.reduce((sum, slice) => sum + slice.rows, 0);
  const [values, magnitudes] = [new Float64Array(rows * channels), new Float64Array(rows * channels)];
  const next = Float64Array.from(kept);
  for (const { first, rows: count, source, target } of slices) {
    const at = (place: number, channel: number): number => {
      if (place >= 0) return x[(first + place) * channels + channel]!;
      return source === undefined ? 0 : kept[(source * (TAPS - 1) + TAPS - 1 + place) * channels + channel]!;
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
    for (let j = 0; j < TAPS - 1; j++)
      for (let channel = 0; channel < channels; channel++)
        next[(target * (TAPS - 1) + j) * channels + channel] = at(count - TAPS + 1 + j, channel);
  }
  return { y: { values, magnitudes }, kept: next };
}

/** The gates of a row and head: what the state is multiplied by, and the share of what is learnt. */
export interface DeltaGates {
  readonly beta: ArrayLike<number>;
  readonly alpha: ArrayLike<number>;
  readonly rate: ArrayLike<number>;
  readonly bias: ArrayLike<number>;
}

/**
 * state = decay · state; state += beta (v - state k) kᵀ; y = state q / √dim: one row after the other, states `[states,
 * value_heads, dim, dim]`. @returns y, and the states after it
 */
export function deltaNet(
  qkv: ArrayLike<number>,
  { beta, alpha, rate, bias }: DeltaGates,
  states: ArrayLike<number>,
  slices: readonly StateSlice[],
  { keyHeads, valueHeads, dim }: DeltaShape,
): { readonly y: Reference; readonly states: Reference } {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const rows = slices.reduce((sum, slice) => sum + slice.rows, 0);
  const y = {
    values: new Float64Array(rows * valueHeads * dim),
    magnitudes: new Float64Array(rows * valueHeads * dim),
  };
  const next = { values: Float64Array.from(states), magnitudes: Float64Array.from(states, Math.abs) };
  for (const { first, rows: count, source, target } of slices) {
    for (let head = 0; head < valueHeads; head++) {
      const at = (state: number) => (state * valueHeads + head) * dim * dim;
      for (let j = 0; j < dim; j++) {
        const old = (i: number) => (source === undefined ? 0 : states[at(source) + j * dim + i]!);
        const state = Float64Array.from({ length: dim }, (_, i) => old(i));
        const size = state.map(Math.abs);
        for (let t = first; t < first + count; t++) {
          const element = (which: number, i: number) => qkv[t * channels + which * dim + i]!;
          const key = head % keyHeads;
          const gate = t * valueHeads + head;
          const decay = Math.exp(rate[head]! * Math.log1p(Math.exp(alpha[gate]! + bias[head]!)));
          const share = 1 / (1 + Math.exp(-beta[gate]!));
          let [predicted, bound] = [0, 0];
          for (let i = 0; i < dim; i++) {
            state[i]! *= decay;
            size[i]! *= decay;
            predicted += state[i]! * element(keyHeads + key, i);
            bound += Math.abs(size[i]! * element(keyHeads + key, i));
          }
          const v = element(2 * keyHeads + head, j);
          let [out, outSize] = [0, 0];
          for (let i = 0; i < dim; i++) {
            state[i]! += share * (v - predicted) * element(keyHeads + key, i);
            size[i]! += share * (Math.abs(v) + bound) * Math.abs(element(keyHeads + key, i));
            out += state[i]! * element(key, i);
            outSize += Math.abs(size[i]! * element(key, i));
          }
          const place = (t * valueHeads + head) * dim + j;
          y.values[place] = out / Math.sqrt(dim);
          y.magnitudes[place] = outSize / Math.sqrt(dim);
        }
        next.values.set(state, at(target) + j * dim);
        next.magnitudes.set(size, at(target) + j * dim);
      }
    }
  }
  return { y, states: next };
}
