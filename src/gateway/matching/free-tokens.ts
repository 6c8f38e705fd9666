import type { ConstraintListener, TokenConstraint, TokenMask } from './token-constraint.js';

/** The mask that allows every token of a vocabulary. */
export function everyToken(vocabularySize: number): TokenMask {
  const bits = new Uint8Array(4 * Math.ceil(vocabularySize / 32));
  bits.fill(0xff, 0, vocabularySize >> 3);
  if (vocabularySize % 8 > 0) bits[vocabularySize >> 3] = (1 << (vocabularySize % 8)) - 1;
  return { bits, onlyEnds: false };
}

/** An answer that may be any: what holds its reasoning to a budget stands around it. */
export class FreeTokens implements TokenConstraint {
  readonly ahead = [];
  private listener: ConstraintListener | undefined;

  /** @param mask of all tokens, one for all answers */
  constructor(readonly mask: TokenMask) {}

  accept(): void {
    // Not at once: what stands around it has not looked at the token yet.
    queueMicrotask(() => this.listener?.ready());
  }

  listen(listener: ConstraintListener): void {
    this.listener = listener;
  }

  close(): void {
    this.listener = undefined;
  }
}
