/** Tokens that may come next. The same object means the same tokens. */
export interface TokenMask {
  /** Bit i % 8 of byte i / 8 allows token i. */
  readonly bits: Uint8Array;
  /** Whether all that may come are tokens that end the text. */
  readonly onlyEnds: boolean;
}

/** Who hears of one answer's masks. */
export interface ConstraintListener {
  /** The mask after all tokens that were accepted is known. */
  ready(): void;
  failed(error: Error): void;
}

/** What restricts the tokens of one answer, as far as it has come. */
export interface TokenConstraint {
  /** Of the next token; undefined while it is worked out. */
  readonly mask: TokenMask | undefined;
  /** The answer went on by a token that the mask allowed, and that did not end it. */
  accept(tokenId: number): void;
  listen(listener: ConstraintListener): void;
  /** The answer has ended. */
  close(): void;
}
