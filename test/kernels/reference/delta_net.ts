import type { Reference } from '../support/compare.js';

/** Rows of one sequence, and which states they go from and to; no source: all zero; no target: none is written. */
export interface StateSlice {
  readonly first: number;
  readonly rows: number;
  readonly source: number | undefined;
  readonly target: number | undefined;
  /** True if the state before its own rows is written. */
  readonly isBefore: boolean;
  /** Replay rows before its own, and the first of them. */
  readonly replayed: number;
  readonly replayRow: number;
}

export interface DeltaShape {
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
  /** Value heads of a key head follow each other. */
  readonly isGrouped?: boolean;
}

/** The gates of a row and head: what the state is multiplied by, and the share of what is learnt. */
export interface DeltaGates {
  readonly beta: ArrayLike<number>;
  readonly alpha: ArrayLike<number>;
  readonly rate: ArrayLike<number>;
  readonly bias: ArrayLike<number>;
}

/** Inputs of a replay row: what its convolution takes, q, k and v, and gates. */
export interface ReplayRow {
  readonly x: ArrayLike<number>;
  readonly qkv: ArrayLike<number>;
  readonly beta: ArrayLike<number>;
  readonly alpha: ArrayLike<number>;
}

/** Rows of `[channels | channels | value_heads | value_heads]`. */
export function replayRowsIn(
  replay: Float32Array,
  { keyHeads, valueHeads, dim }: Pick<DeltaShape, 'keyHeads' | 'valueHeads' | 'dim'>,
): ReplayRow[] {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const columns = 2 * (channels + valueHeads);
  return Array.from({ length: replay.length / columns }, (_, i) => {
    const row = replay.subarray(i * columns, (i + 1) * columns);
    const [x, qkv] = [row.subarray(0, channels), row.subarray(channels, 2 * channels)];
    const beta = row.subarray(2 * channels, 2 * channels + valueHeads);
    return { x, qkv, beta, alpha: row.subarray(2 * channels + valueHeads) };
  });
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
  replay: readonly ReplayRow[],
  { keyHeads, valueHeads, dim, isGrouped = false }: DeltaShape,
): { readonly y: Reference; readonly states: Reference } {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const rows = slices.reduce((sum, slice) => sum + slice.rows, 0);
  const y = {
    values: new Float64Array(rows * valueHeads * dim),
    magnitudes: new Float64Array(rows * valueHeads * dim),
  };
  const next = { values: Float64Array.from(states), magnitudes: Float64Array.from(states, Math.abs) };
  for (const { first, rows: count, source, target, isBefore, replayed, replayRow } of slices) {
    for (let head = 0; head < valueHeads; head++) {
      const at = (state: number) => (state * valueHeads + head) * dim * dim;
      for (let j = 0; j < dim; j++) {
        const old = (i: number) => (source === undefined ? 0 : states[at(source) + j * dim + i]!);
        const state = Float64Array.from({ length: dim }, (_, i) => old(i));
        const size = state.map(Math.abs);
        const write = () => {
          if (target === undefined) return;
          next.values.set(state, at(target) + j * dim);
          next.magnitudes.set(size, at(target) + j * dim);
        };
        for (let t = first - replayed; t < first + count; t++) {
          if (isBefore && t === first) write();
          const replaying = t < first ? replay[replayRow + replayed + t - first]! : undefined;
          const [row, start] = replaying === undefined ? [qkv, t * channels] : [replaying.qkv, 0];
          const element = (which: number, i: number) => row[start + which * dim + i]!;
          const key = isGrouped ? Math.floor((head * keyHeads) / valueHeads) : head % keyHeads;
          const gate = replaying === undefined ? t * valueHeads + head : head;
          const gates = replaying ?? { beta, alpha };
          const decay = Math.exp(rate[head]! * Math.log1p(Math.exp(gates.alpha[gate]! + bias[head]!)));
          const share = 1 / (1 + Math.exp(-gates.beta[gate]!));
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
          if (t < first) continue;
          const place = (t * valueHeads + head) * dim + j;
          y.values[place] = out / Math.sqrt(dim);
          y.magnitudes[place] = outSize / Math.sqrt(dim);
        }
        if (!isBefore) write();
      }
    }
  }
  return { y, states: next };
}
