/** Names of tokens that are no text, as a grammar needs them. */
export interface SpecialTokenNames {
  /** Names of tokens that a grammar may use. */
  readonly special: readonly string[];
  /** Names of tokens that end a generation: they stand behind what a grammar allows, nowhere in it. */
  readonly ends: readonly string[];
}
