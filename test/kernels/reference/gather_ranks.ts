/** Rows of the parts side by side. @param widths of each part's rows */
export function gatherRanks(parts: readonly Float32Array[], widths: readonly number[], rows: number): Float64Array {
  const values: number[] = [];
  for (let row = 0; row < rows; row++) {
    for (const [rank, part] of parts.entries()) {
      const width = widths[rank]!;
      values.push(...part.subarray(row * width, (row + 1) * width));
    }
  }
  return Float64Array.from(values);
}
