/**
 * The byte alphabet of GPT-2: every byte has a printable character, so that tokens of arbitrary bytes can be written as
 * text. Printable Latin-1 stands for itself, the other 68 bytes follow from U+0100 on.
 */
const CHARACTERS: readonly string[] = (() => {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : next++));
})();

const BYTES: ReadonlyMap<string, number> = new Map(CHARACTERS.map((character, byte) => [character, byte]));

/** The character that stands for a byte, 0 to 255. */
export function characterOfByte(byte: number): string {
  return CHARACTERS[byte]!;
}

/** The byte that a character stands for; `undefined` outside the alphabet. */
export function byteOfCharacter(character: string): number | undefined {
  return BYTES.get(character);
}
