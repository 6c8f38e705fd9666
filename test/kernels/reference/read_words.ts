/** The exclusive or of each `part` words. */
export function readWords(words: Int32Array, part: number): Int32Array {
  return Int32Array.from({ length: Math.ceil(words.length / part) }, (_, b) =>
    words.subarray(b * part, (b + 1) * part).reduce((all, word) => all ^ word, 0),
  );
}
