/** Words of a block, of which each of these buffers has a part. @param counts words of a block in each */
export function blockOf(parts: readonly Int32Array[], counts: readonly number[], block: number): number[] {
  return parts.flatMap((words, i) => {
    const count = counts[i] as number;
    return Array.from(words.subarray(block * count, (block + 1) * count));
  });
}

/** The buffers after a block was written. @param x its words in all of them, one part behind the other */
export function scattered(
  parts: readonly Int32Array[],
  counts: readonly number[],
  block: number,
  x: Int32Array,
): Int32Array[] {
  let at = 0;
  return parts.map((words, i) => {
    const count = counts[i] as number;
    const after = words.slice();
    after.set(x.subarray(at, at + count), block * count);
    at += count;
    return after;
  });
}
