import { isUtf8 } from 'node:buffer';

/**
 * GGUF text is UTF-8, but the tokens of some byte-level vocabularies are raw bytes. Replacing those by U+FFFD would
 * make different tokens equal, so each byte `b` that is not part of valid UTF-8 becomes the lone surrogate
 * `U+DC00 + b` (Python's "surrogateescape"). No valid UTF-8 decodes to a lone surrogate, so nothing is lost:
 * `encodeText(decodeText(bytes))` equals `bytes` for any bytes.
 */
export function decodeText(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  if (isUtf8(buffer)) return buffer.toString('utf8');
  let text = '';
  for (let at = 0; at < buffer.length; ) {
    const length = sequenceLength(buffer[at]!);
    const sequence = buffer.subarray(at, at + length);
    if (sequence.length === length && isUtf8(sequence)) {
      text += sequence.toString('utf8');
      at += length;
    } else {
      text += String.fromCharCode(0xdc00 + buffer[at]!);
      at += 1;
    }
  }
  return text;
}

/** The bytes that {@link decodeText} was given; ordinary text becomes its UTF-8. */
export function encodeText(text: string): Uint8Array {
  if (!/[\udc80-\udcff]/.test(text)) return Buffer.from(text, 'utf8');
  const parts: Uint8Array[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    parts.push(code >= 0xdc80 && code <= 0xdcff ? Uint8Array.of(code - 0xdc00) : Buffer.from(character, 'utf8'));
  }
  return Buffer.concat(parts);
}

function sequenceLength(lead: number): number {
  if (lead < 0xc0) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}
