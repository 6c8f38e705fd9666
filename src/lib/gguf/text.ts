import { isUtf8 } from 'node:buffer';

/**
 * GGUF text is UTF-8, but the tokens of some byte-level vocabularies are raw bytes. Replacing those by U+FFFD would
 * make different tokens equal, so each byte `b` that is not part of valid UTF-8 becomes the lone surrogate
 * `U+DC00 + b` (Python's "surrogateescape"). No valid UTF-8 decodes to a lone surrogate, so different bytes give
 * different text.
 */
export function decodeText(bytes: Uint8Array): string {
  if (isUtf8(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8');
  // No sequence of bytes has more UTF-16 code units than bytes. The whole text is decoded in one pass: a damaged
  // header may call megabytes one token, and a string for each of their characters takes seconds.
  const units = new Uint16Array(bytes.length);
  let length = 0;
  for (let at = 0; at < bytes.length; ) {
    const taken = sequenceLength(bytes, at);
    if (taken === 0) {
      units[length++] = 0xdc00 + bytes[at++]!;
      continue;
    }
    let code = taken === 1 ? bytes[at]! : bytes[at]! & (0x7f >> taken);
    for (let next = 1; next < taken; next++) code = (code << 6) | (bytes[at + next]! & 0x3f);
    if (code > 0xffff) units[length++] = 0xd7c0 + (code >> 10);
    units[length++] = code > 0xffff ? 0xdc00 + (code & 0x3ff) : code;
    at += taken;
  }
  return Buffer.from(units.buffer, 0, 2 * length).toString('utf16le');
}

/** Bytes of the well-formed UTF-8 sequence at `at` (The Unicode Standard, table 3-7); 0 if there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!;
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (at + length > bytes.length) return 0;
  for (let next = 1; next < length; next++) if ((bytes[at + next]! & 0xc0) !== 0x80) return 0;
  const second = bytes[at + 1]!;
  const isOverlong = (lead === 0xe0 && second < 0xa0) || (lead === 0xf0 && second < 0x90);
  const isNoCharacter = (lead === 0xed && second > 0x9f) || (lead === 0xf4 && second > 0x8f);
  return isOverlong || isNoCharacter ? 0 : length;
}
