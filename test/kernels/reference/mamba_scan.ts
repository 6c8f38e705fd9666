import type { Reference } from '../support/compare.js';
import type { PlainSlice } from '../support/slices.js';
import { silu } from './swiglu.js';

export interface MambaShape {
  readonly heads: number;
  readonly dim: number;
  readonly groups: number;
  /** Columns of a head's state. */
  readonly state: number;
}

/** Inputs beside the convolved ones, `[rows, heads]` and `[rows, heads, dim]`, and the weights of each head. */
export interface MambaInputs {
  readonly dt: ArrayLike<number>;
  readonly gate: ArrayLike<number>;
  readonly rate: ArrayLike<number>;
  readonly bias: ArrayLike<number>;
  readonly skip: ArrayLike<number>;
}

/**
 * state = e^(dt rate) state + dt x bᵀ; y = (state c + skip x) silu(gate): one row after the other, states `[states, heads, dim,
 * state]`. @returns y, and the states after it
 */
export function mambaScan(
  xbc: ArrayLike<number>,
  { dt, gate, rate, bias, skip }: MambaInputs,
  states: ArrayLike<number>,
  slices: readonly PlainSlice[],
  { heads, dim, groups, state: columns }: MambaShape,
): { readonly y: Reference; readonly states: Reference } {
  const inner = heads * dim;
  const channels = inner + 2 * groups * columns;
  const rows = xbc.length / channels;
  const y = { values: new Float64Array(rows * inner), magnitudes: new Float64Array(rows * inner) };
  const next = { values: Float64Array.from(states), magnitudes: Float64Array.from(states, Math.abs) };
  for (const { first, rows: count, source, target } of slices) {
    for (let head = 0; head < heads; head++) {
      const group = Math.floor((head * groups) / heads);
      const at = (state: number) => (state * heads + head) * dim * columns;
      for (let i = 0; i < dim; i++) {
        const state = Float64Array.from({ length: columns }, (_, j) =>
          source === undefined ? 0 : states[at(source) + i * columns + j]!,
        );
        const size = state.map(Math.abs);
        for (let t = first; t < first + count; t++) {
          const input = (column: number) => xbc[t * channels + column]!;
          const step = Math.log1p(Math.exp(dt[t * heads + head]! + bias[head]!));
          const decay = Math.exp(step * rate[head]!);
          const x = input(head * dim + i);
          let [read, readSize] = [skip[head]! * x, Math.abs(skip[head]! * x)];
          for (let j = 0; j < columns; j++) {
            const learnt = step * x * input(inner + group * columns + j);
            state[j] = state[j]! * decay + learnt;
            size[j] = size[j]! * decay + Math.abs(learnt);
            const c = input(inner + (groups + group) * columns + j);
            read += state[j]! * c;
            readSize += size[j]! * Math.abs(c);
          }
          const place = t * inner + head * dim + i;
          const gated = silu(gate[place]!);
          y.values[place] = read * gated;
          y.magnitudes[place] = readSize * Math.abs(gated);
        }
        next.values.set(state, at(target) + i * columns);
        next.magnitudes.set(size, at(target) + i * columns);
      }
    }
  }
  return { y, states: next };
}
