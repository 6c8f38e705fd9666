import type { Reference } from '../support/compare.js';

/** q[r][h] · keys(h)[c] for each row, head and column: [rows, heads, columns]. Magnitudes: sums of absolute products. */
export function qktMatmul(
  queries: readonly (readonly ArrayLike<number>[])[],
  keys: (row: number, head: number) => readonly (ArrayLike<number> | undefined)[],
): Required<Reference> {
  const values: number[] = [];
  const magnitudes: number[] = [];
  queries.forEach((heads, row) => {
    heads.forEach((q, head) => {
      for (const k of keys(row, head)) {
        let [sum, size] = [0, 0];
        for (let i = 0; k !== undefined && i < q.length; i++) {
          sum += q[i]! * k[i]!;
          size += Math.abs(q[i]! * k[i]!);
        }
        values.push(sum);
        magnitudes.push(size);
      }
    });
  });
  return { values: Float64Array.from(values), magnitudes: Float64Array.from(magnitudes) };
}
