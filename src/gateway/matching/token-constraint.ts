/** Tokens that may come next. The same object means the same tokens. */
export interface TokenMask {
  /** Bit i % 8 of byte i / 8 allows token i. */
  readonly bits: Uint8Array;
  /** True if all allowed tokens end the text. */
  readonly onlyEnds: boolean;
}

/** A token that may follow those before it, and what may follow then. */
export interface MaskedDraftToken {
  readonly tokenId: number;
  readonly mask: TokenMask;
  /** True if no other is allowed. */
  readonly isSure: boolean;
}

/** Listener of one answer's masks. */
export interface ConstraintListener {
  /** The mask after all tokens that were accepted is known. */
  ready(): void;
  failed(error: Error): void;
  /** Draft tokens at what follows those tokens. Absent: what follows does not matter, not even where it is sure. */
  draftTokens?(): readonly number[];
}

/** Constraint on the tokens of one answer, as far as it has come. */
export interface TokenConstraint {
  /** Mask of the next token; undefined while it is computed. */
  readonly mask: TokenMask | undefined;
  /** True while its grammar or its first mask is computed: it may still be refused. Absent: never. */
  readonly isOpening?: boolean;
  /**
   * Tokens that may follow one another, as far as they were drafted, or nothing else is allowed; none of them ends the text, and
   * none is followed by the end alone. While the mask is worked out, those that were right so far have left.
   */
  readonly ahead: readonly MaskedDraftToken[];
  /** The answer went on by a token that the mask allowed, and that did not end it. */
  accept(tokenId: number): void;
  /** A listener that is added after a failure receives it, too. */
  listen(listener: ConstraintListener): void;
  /** The answer has ended. */
  close(): void;
}
