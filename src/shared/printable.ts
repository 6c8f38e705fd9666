/** Control characters, and those that reorder text or end a line: none of them is shown, and some steer a terminal. */
const UNPRINTABLE = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu;
/** The same but for tabs and line ends, which texts of several lines have. */
const UNPRINTABLE_IN_LINES = /(?!\t|\r?\n)[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu;

/**
 * A text of foreign origin (a file's, a driver's, a model's, a server's) as a terminal may show it: what would steer the terminal
 * becomes `\x1b` or `\u202e`. Tabs and line ends stay.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE_IN_LINES, escaped);
}

/** {@link printable} for one line: tabs and line ends are escaped, too. */
export function printableLine(text: string): string {
  return text.replace(UNPRINTABLE, escaped);
}

/**
 * A value as JSON that a terminal may show: of what {@link printable} escapes `JSON.stringify` leaves some as it is.
 *
 * @param indent spaces a level; default: one line
 * @param replace what becomes of a member, as of `JSON.stringify`
 */
export function printableJson(
  value: unknown,
  indent?: number,
  replace?: (key: string, value: unknown) => unknown,
): string {
  // Outside of strings there are none but line ends.
  return JSON.stringify(value, replace, indent).replace(UNPRINTABLE_IN_LINES, (character) => `\\u${hex(character, 4)}`);
}

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${hex(character, 2)}` : `\\u${hex(character, 4)}`;
}

const hex = (character: string, digits: number): string => character.charCodeAt(0).toString(16).padStart(digits, '0');
