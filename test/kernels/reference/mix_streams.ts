import type { Reference } from '../support/compare.js';

const STREAMS = 4;

export interface MixedStreams {
  /** The four streams, each `[rows, hidden]`. */
  readonly streams: readonly Float32Array[];
  readonly kept: Float32Array;
  readonly weight: Float32Array;
  readonly scores: Float32Array;
  readonly coefficients: Float32Array;
  readonly hidden: number;
  readonly terms: number;
  readonly scale: number;
}

/** The streams after mix_streams, and `kept` at the end. */
export function mixStreams({
  streams,
  kept,
  weight,
  scores,
  coefficients,
  hidden,
  terms,
  scale,
}: MixedStreams): Reference[] {
  const results = Array.from({ length: STREAMS + 1 }, () => ({
    values: new Float64Array(kept.length),
    magnitudes: new Float64Array(kept.length),
  }));
  for (let at = 0; at < kept.length; at++) {
    const first = Math.floor(at / hidden) * STREAMS;
    const modalities = Array.from({ length: STREAMS }, (_, k) => Math.tanh(scores[first + k]! * scale));
    const share = (row: number, term: (value: number, k: number) => number) =>
      modalities.reduce((sum, modality, k) => sum + term(coefficients[row * STREAMS + k]! * modality, k), 0);
    // Roundings of tanh are of numbers as large as 1.
    const size = (row: number) =>
      modalities.reduce((sum, _modality, k) => sum + Math.abs(coefficients[row * STREAMS + k]!), 0);
    const before = streams.map((stream) => stream[at]!);
    for (let i = 0; i < STREAMS; i++) {
      const own = results[i]!;
      if (terms === 1) {
        const gained = before[0]! - kept[at]!;
        const start = i === 0 ? kept[at]! : before[i]!;
        own.values[at] = start + (1 + share(i, (value) => value)) * gained;
        own.magnitudes[at] = Math.abs(start) + (1 + size(i)) * (Math.abs(before[0]!) + Math.abs(kept[at]!));
      } else {
        const mixed = before.map((value, j) => [value, i * STREAMS + j] as const);
        own.values[at] = mixed.reduce((sum, [value, row]) => sum + share(row, (one) => one) * value, before[i]!);
        own.magnitudes[at] = mixed.reduce(
          (sum, [value, row]) => sum + size(row) * Math.abs(value),
          Math.abs(before[i]!),
        );
      }
    }
    const by = weight[at % hidden]!;
    results[STREAMS]!.values[at] = results[0]!.values[at]! * by;
    results[STREAMS]!.magnitudes[at] = results[0]!.magnitudes[at]! * Math.abs(by);
  }
  return results;
}
