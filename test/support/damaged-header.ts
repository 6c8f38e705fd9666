import type { Random } from './random.js';

/** A sound GGUF file, and where damage does most. */
export interface GoodHeader {
  readonly bytes: Buffer;
  readonly dataOffset: number;
  /** End of the keys that are read: a third of the damage goes to their types and values. */
  readonly places: readonly number[];
}

/** @param keys those whose values are damaged more often than the rest */
export function goodHeader(bytes: Buffer, dataOffset: number, keys: RegExp): GoodHeader {
  const found = [...bytes.subarray(0, dataOffset).toString('latin1').matchAll(keys)];
  return { bytes, dataOffset, places: found.map(({ index, 0: name }) => index + name.length) };
}

const NUMBERS = [0, 1, 2, 3, 7, 63, 64, 65, 255, 2 ** 16, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const FLOATS = [0, -1, 1e-45, 1e-30, 1, 2, 1e6, 1e38, Number.NaN, Number.POSITIVE_INFINITY];

/** The file with one to three damages in its header. */
export function damaged(random: Random, { bytes, dataOffset, places }: GoodHeader): Buffer {
  const below = (n: number) => random.below(n);
  let copy = Buffer.from(bytes);
  for (let damages = 1 + below(3); damages > 0; damages--) {
    const at = below(3) === 0 ? below(Math.min(1200, dataOffset)) : below(dataOffset - 8);
    const kind = below(7);
    if (kind === 0) copy[at]! ^= 1 << below(8);
    else if (kind === 1) copy[at] = below(256);
    else if (kind === 2) copy.writeUInt32LE(NUMBERS[below(NUMBERS.length)]!, at);
    else if (kind === 3) copy.writeBigUInt64LE(2n ** BigInt(below(64)) - BigInt(below(2)), at);
    else if (kind === 4 && below(8) === 0) copy = copy.subarray(0, below(copy.length));
    else {
      // A value of a key that is read: its type follows the key, then the value.
      const value = places[below(places.length)]! + 4;
      if (kind === 5) copy.writeUInt32LE(NUMBERS[below(NUMBERS.length)]!, value);
      else copy.writeFloatLE(FLOATS[below(FLOATS.length)]!, value);
    }
    if (copy.length < dataOffset) break;
  }
  return copy;
}
