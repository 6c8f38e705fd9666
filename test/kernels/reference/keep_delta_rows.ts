import type { DeltaShape } from './delta_net.js';

/** Rows of a step that {@link keepDeltaRows} keeps, and where. */
export type KeptRows = readonly (readonly [row: number, to: number])[];

/** Inputs of a gated delta net; rows of x and of the gates are `stride` apart. */
export interface DeltaInputs {
  readonly x: Float32Array;
  readonly qkv: Float32Array;
  readonly beta: Float32Array;
  readonly alpha: Float32Array;
  readonly stride: number;
}

/** `replay`, `[replay_rows, 2 * (channels + value_heads)]`, with the rows in their places. */
export function keepDeltaRows(
  { x, qkv, beta, alpha, stride }: DeltaInputs,
  kept: KeptRows,
  replay: Float32Array,
  { keyHeads, valueHeads, dim }: DeltaShape,
): Float64Array {
  const channels = (2 * keyHeads + valueHeads) * dim;
  const next = Float64Array.from(replay);
  for (const [row, to] of kept) {
    const far = (values: Float32Array, count: number) => values.subarray(row * stride, row * stride + count);
    let at = to * 2 * (channels + valueHeads);
    const own = qkv.subarray(row * channels, (row + 1) * channels);
    for (const part of [far(x, channels), own, far(beta, valueHeads), far(alpha, valueHeads)]) {
      next.set(part, at);
      at += part.length;
    }
  }
  return next;
}
