import type { Random } from './values.js';

/** Rows of a step, each with a replay row of its own. */
export function keptRows(
  random: Random,
  rows: number,
  replayRows: number,
): readonly (readonly [row: number, to: number])[] {
  const order = Array.from({ length: replayRows }, (_, i) => [random.below(1000), i] as const).sort(
    ([a], [b]) => a - b,
  );
  return order.slice(0, 1 + random.below(Math.min(rows, replayRows))).map(([, to]) => [random.below(rows), to]);
}
