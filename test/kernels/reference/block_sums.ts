/** The two checksums of a part of a block. */
export function blockSums(words: Int32Array): readonly [number, number] {
  let [first, second] = [0, 0];
  words.forEach((word, index) => {
    let mixed = Math.imul(word ^ Math.imul(index, 0x9e3779b1), 0x85ebca6b);
    mixed ^= mixed >>> 15;
    first = (first + mixed) | 0;
    mixed = Math.imul(mixed, 0xc2b2ae35);
    mixed ^= mixed >>> 13;
    second = (second + mixed) | 0;
  });
  return [first, second];
}
