/**
 * Bytes that may be the second of a character, by its first, where those are not all from 80 to BF; RFC 3629 section 4. What is
 * left out would be a longer form of another character, half of a surrogate pair, or beyond Unicode: the library's negated
 * classes take them for characters.
 */
const SECOND_BYTES = new Map([
  [0xe0, [0xa0, 0xbf]],
  [0xed, [0x80, 0x9f]],
  [0xf0, [0x90, 0xbf]],
  [0xf4, [0x80, 0x8f]],
] as const satisfies [number, readonly [number, number]][]);

/** Whether a byte may follow another in UTF-8, as far as the library does not see to it. */
export function mayFollow(before: number | undefined, byte: number): boolean {
  const range = SECOND_BYTES.get(before as 0xe0);
  return range === undefined || (byte >= range[0] && byte <= range[1]);
}

/** Which tokens may follow one that breaks off within a character. */
export class WellFormed {
  private readonly bytes: Uint8Array;
  private readonly starts: Uint32Array;
  private readonly masks = new Map<number, Int32Array>();

  /** As `MatcherWorkerData` has them. */
  constructor(bytes: SharedArrayBuffer, offsets: SharedArrayBuffer) {
    this.bytes = new Uint8Array(bytes);
    this.starts = new Uint32Array(offsets);
  }

  /** A mask without the tokens that may not follow this one. */
  after(tokenId: number | undefined, mask: Int32Array): Int32Array {
    const end = tokenId === undefined ? 0 : (this.starts[tokenId + 1] ?? 0);
    const isEmpty = tokenId === undefined || end === this.starts[tokenId];
    const last = isEmpty ? undefined : this.bytes[end - 1];
    if (last === undefined || !SECOND_BYTES.has(last as 0xe0)) return mask;
    const following = this.following(last, mask.length);
    return mask.map((word, i) => word & (following[i] as number));
  }

  private following(byte: number, words: number): Int32Array {
    let mask = this.masks.get(byte);
    if (mask === undefined) {
      mask = new Int32Array(words);
      for (let id = 0; id + 1 < this.starts.length; id++) {
        const first = this.starts[id] as number;
        const isIn = first < (this.starts[id + 1] as number) && mayFollow(byte, this.bytes[first] as number);
        if (isIn) mask[id >> 5] = (mask[id >> 5] as number) | (1 << (id & 31));
      }
      this.masks.set(byte, mask);
    }
    return mask;
  }
}
