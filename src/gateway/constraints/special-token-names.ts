/**
 * In a grammar a special token is its name between two of this byte: one name may begin with another. UTF-8 has no such byte, so
 * no text, and no character that a grammar allows, is ever a special token; tokens of text that hold the byte are kept out of the
 * vocabulary that grammars are run over.
 */
export const SPECIAL_TOKEN_BYTE = 0xff;

/** Names of tokens that are no text, as a grammar needs them. */
export interface SpecialTokenNames {
  /** Names of tokens that a grammar may use. */
  readonly special: readonly string[];
  /** Names of tokens that end a generation: they stand behind what a grammar allows, nowhere in it. */
  readonly ends: readonly string[];
}
