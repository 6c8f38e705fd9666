import { type CodePointSet, pairs } from './code-points.js';

/** A first and a last byte. */
export type ByteRange = readonly [number, number];

/** The largest value of each length of UTF-8; RFC 3629 section 3. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff];

/** The UTF-8 of a set as sequences of byte ranges: each sequence is all texts that take one byte of each range. */
export function utf8Sequences(set: CodePointSet): ByteRange[][] {
  return pairs(set).flatMap(([first, last]) => {
    const found: ByteRange[][] = [];
    let from = first;
    for (const limit of LAST_OF_LENGTH) {
      if (from > last) break;
      const to = Math.min(last, limit);
      if (from <= to) found.push(...ofOneLength(bytesOf(from), bytesOf(to)));
      from = Math.max(from, limit + 1);
    }
    return found;
  });
}

const bytesOf = (codePoint: number) => [...Buffer.from(String.fromCodePoint(codePoint))];

/** Bytes after the first go from 80 to BF: only the lowest and the highest first byte may not take all of them. */
function ofOneLength(low: readonly number[], high: readonly number[]): ByteRange[][] {
  const [first, ...restLow] = low as [number, ...number[]];
  const [last, ...restHigh] = high as [number, ...number[]];
  if (restLow.length === 0) return [[[first, last]]];
  const least = restLow.map(() => 0x80);
  const most = restLow.map(() => 0xbf);
  if (first === last) return ofOneLength(restLow, restHigh).map((rest) => [[first, last], ...rest]);
  const isWhole = (bytes: readonly number[], limit: readonly number[]) => bytes.join() === limit.join();
  const found: ByteRange[][] = [];
  let [from, to] = [first, last];
  if (!isWhole(restLow, least)) {
    found.push(...ofOneLength(restLow, most).map((rest): ByteRange[] => [[first, first], ...rest]));
    from++;
  }
  if (!isWhole(restHigh, most)) to--;
  if (from <= to) found.push([[from, to], ...least.map((byte): ByteRange => [byte, 0xbf])]);
  if (to < last) found.push(...ofOneLength(least, restHigh).map((rest): ByteRange[] => [[last, last], ...rest]));
  return found;
}
