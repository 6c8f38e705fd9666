import { createHash } from 'node:crypto';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { ConstraintListener, MaskedDraftToken, TokenConstraint, TokenMask } from './token-constraint.js';

/** Who works out an answer's masks. */
export interface AnswerThread {
  accept(answer: ConstrainedAnswer, tokenId: number): void;
  drop(answer: ConstrainedAnswer): void;
}

/** An answer, as far as it has come. */
export class ConstrainedAnswer implements TokenConstraint {
  mask: TokenMask | undefined;
  ahead: readonly MaskedDraftToken[] = [];
  /** What a thread that takes it over is told. */
  readonly tokenIds: number[] = [];
  thread: AnswerThread | undefined;
  id = 0;
  isClosed = false;
  /** Milliseconds that its masks took beyond what one may in a thread that works for several clients. */
  slowMs = 0;
  private listener: ConstraintListener | undefined;

  /** The same for all answers of this form. */
  readonly form: string;

  /** @param client whose it is */
  constructor(
    readonly constraint: GivenConstraint,
    readonly client: string,
  ) {
    this.form = createHash('sha256').update(JSON.stringify(constraint)).digest('base64');
  }

  accept(tokenId: number): void {
    this.mask = undefined;
    this.ahead = this.ahead[0]?.tokenId === tokenId ? this.ahead.slice(1) : [];
    this.tokenIds.push(tokenId);
    // Without a thread the next one hears of it when it takes the answer over.
    this.thread?.accept(this, tokenId);
  }

  listen(listener: ConstraintListener): void {
    this.listener = listener;
  }

  close(): void {
    this.isClosed = true;
    this.thread?.drop(this);
  }

  /** Draft tokens at what follows; see {@link ConstraintListener}. */
  draftTokens(): readonly number[] | undefined {
    return this.listener?.draftTokens?.();
  }

  ready(mask: TokenMask, ahead: readonly MaskedDraftToken[]): void {
    this.mask = mask;
    this.ahead = ahead;
    this.listener?.ready();
  }

  fail(error: Error): void {
    if (!this.isClosed) this.listener?.failed(error);
  }
}
