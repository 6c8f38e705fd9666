import { createHash } from 'node:crypto';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { GrammarMatcher, MaskJob } from './mask-addon.js';
import type { ConstraintListener, MaskedDraftToken, TokenConstraint, TokenMask } from './token-constraint.js';

/** Computer of an answer's masks. */
export interface MaskSource {
  /** The answer has gone on: it needs the next mask. */
  add(answer: ConstrainedAnswer): void;
}

/** An answer, as far as it has come. */
export class ConstrainedAnswer implements TokenConstraint {
  mask: TokenMask | undefined;
  ahead: readonly MaskedDraftToken[] = [];
  isClosed = false;
  isOpening = true;
  /** Resolves when the first mask is known or the answer is closed; rejects where it cannot be computed. */
  readonly opened: Promise<void>;
  /** Tokens that its matcher has not accepted yet. */
  private pending: number[] = [];
  private isUnderWay = false;
  private listener: ConstraintListener | undefined;
  private failure: Error | undefined;
  private settle: { readonly resolve: () => void; readonly reject: (error: Error) => void } | undefined;

  /** The same for all answers of this form. */
  readonly form: string;
  private matcher: GrammarMatcher | undefined;
  private source: MaskSource | undefined;

  /** @param client whose it is */
  constructor(
    readonly constraint: GivenConstraint,
    readonly client: string,
  ) {
    this.form = createHash('sha256').update(JSON.stringify(constraint)).digest('base64');
    this.opened = new Promise((resolve, reject) => {
      this.settle = { resolve, reject };
    });
    // The listener learns of it, too.
    this.opened.catch(() => undefined);
  }

  /** Begins: the first mask is computed. */
  start(matcher: GrammarMatcher, source: MaskSource): void {
    this.matcher = matcher;
    this.source = source;
    if (this.isClosed) this.free();
    else source.add(this);
  }

  accept(tokenId: number): void {
    this.mask = undefined;
    this.ahead = this.ahead[0]?.tokenId === tokenId ? this.ahead.slice(1) : [];
    this.pending.push(tokenId);
    // While a job has its matcher, the next one is added when that returns.
    if (this.pending.length === 1 && !this.isUnderWay) this.source?.add(this);
  }

  listen(listener: ConstraintListener): void {
    this.listener = listener;
    const { failure } = this;
    if (failure !== undefined) queueMicrotask(() => !this.isClosed && listener.failed(failure));
  }

  close(): void {
    this.isClosed = true;
    this.settle?.resolve();
    if (!this.isUnderWay) this.free();
  }

  /** Next job of its matcher; nothing else may use the matcher until {@link done}. */
  job(): MaskJob {
    const draftTokens = this.listener?.draftTokens?.();
    const job: MaskJob = {
      matcher: this.matcher as GrammarMatcher,
      tokenIds: Uint32Array.from(this.pending),
      draftTokens: draftTokens === undefined ? undefined : Uint32Array.from(draftTokens),
    };
    this.isUnderWay = true;
    this.pending = [];
    return job;
  }

  /** A job has returned. @param notBegun its tokens, where it has not been begun; it is to be added again */
  done(notBegun?: Uint32Array): void {
    this.isUnderWay = false;
    if (this.isClosed) this.free();
    else if (notBegun !== undefined) this.pending.unshift(...notBegun);
    else if (this.pending.length > 0) this.source?.add(this);
  }

  /** The mask behind all tokens of the last job; where others have come meanwhile, it is not the next one any more. */
  ready(mask: TokenMask, ahead: readonly MaskedDraftToken[]): void {
    if (this.isClosed || this.pending.length > 0) return;
    this.mask = mask;
    this.ahead = ahead;
    this.isOpening = false;
    this.settle?.resolve();
    this.listener?.ready();
  }

  fail(error: Error): void {
    if (this.isClosed) return;
    this.failure = error;
    this.settle?.reject(error);
    this.listener?.failed(error);
  }

  private free(): void {
    this.matcher?.close();
    this.matcher = undefined;
  }
}
