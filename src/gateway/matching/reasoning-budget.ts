import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { HeldReasoning } from '../constraints/reasoning-grammar.js';
import { everyToken, FreeTokens } from './free-tokens.js';
import type { ConstraintListener, MaskedDraftToken, TokenConstraint, TokenMask } from './token-constraint.js';

/** Beginning and end of a model's reasoning, as text, and the tokens that end it. */
export class ReasoningMarks {
  /** Bytes as characters. */
  readonly begin: string;
  readonly end: string;
  readonly endIds: readonly number[];
  /** Mask for each of these tokens that allows it alone. */
  readonly masks: readonly TokenMask[];

  constructor(
    private readonly tokenizer: Tokenizer,
    marks: { readonly begin: string; readonly end: string },
  ) {
    this.begin = bytesOf(marks.begin);
    this.end = bytesOf(marks.end);
    this.endIds = [...tokenizer.encodePrompt(marks.end, { parseSpecial: true, addSpecial: false })];
    this.masks = this.endIds.map((id) => {
      const bits = new Uint8Array(4 * Math.ceil(tokenizer.vocabularySize / 32));
      bits[id >> 3] = 1 << (id & 7);
      return { bits, onlyEnds: false };
    });
  }

  /** The bytes of a token as characters; of a special token those of its name. */
  textOf(tokenId: number): string {
    const { tokenizer } = this;
    if (!tokenizer.isRendered(tokenId)) return bytesOf(tokenizer.tokenText(tokenId));
    return Buffer.from(tokenizer.tokenBytes(tokenId)).toString('latin1');
  }
}

/** A constraint whose answer has reasoning in front: after so many tokens of it its end is the only way to go on. */
export class ReasoningBudget implements TokenConstraint {
  private text = '';
  private tokens = 0;
  private forced = 0;

  /**
   * @param inner  allows any text as reasoning, and its end
   * @param phase  where the answer starts: before reasoning that the model may begin, or within it
   * @param budget tokens
   */
  constructor(
    private readonly inner: TokenConstraint,
    private readonly marks: ReasoningMarks,
    private phase: 'before' | 'reasoning' | 'over',
    private readonly budget: number,
  ) {}

  get mask(): TokenMask | undefined {
    const { mask } = this.inner;
    if (mask === undefined || !this.isSpent) return mask;
    const id = this.marks.endIds[this.forced];
    const isAllowed = id !== undefined && ((mask.bits[id >> 3] as number) & (1 << (id & 7))) !== 0;
    return isAllowed ? this.marks.masks[this.forced] : mask;
  }

  get isOpening(): boolean {
    return this.inner.isOpening ?? false;
  }

  get ahead(): readonly MaskedDraftToken[] {
    const { ahead } = this.inner;
    if (this.phase === 'over') return ahead;
    return ahead.slice(0, Math.max(0, this.budget - this.tokens - 1));
  }

  accept(tokenId: number): void {
    const isForced = this.isSpent && tokenId === this.marks.endIds[this.forced];
    this.inner.accept(tokenId);
    if (this.phase === 'over') return;
    this.tokens += 1;
    this.forced = isForced ? this.forced + 1 : 0;
    this.read(this.marks.textOf(tokenId));
  }

  listen(listener: ConstraintListener): void {
    this.inner.listen(listener);
  }

  close(): void {
    this.inner.close();
  }

  private get isSpent(): boolean {
    return this.phase === 'reasoning' && this.tokens >= this.budget;
  }

  private read(text: string): void {
    this.text += text;
    const { begin, end } = this.marks;
    if (this.phase === 'before') {
      this.text = this.text.trimStart();
      if (this.text.startsWith(begin)) {
        this.phase = 'reasoning';
        this.text = this.text.slice(begin.length);
      } else if (!begin.startsWith(this.text)) this.phase = 'over';
    }
    if (this.phase !== 'reasoning') return;
    if (this.text.includes(end)) this.phase = 'over';
    else this.text = this.text.slice(-end.length);
  }
}

/** Part of an answer that is reasoning, and the limit of it. */
export interface ReasoningLimit {
  readonly reasoning: HeldReasoning;
  /** Tokens. */
  readonly budget: number;
}

/** Holds the reasoning in front of answers to a budget of tokens. */
export class ReasoningBudgets {
  private readonly marks = new Map<string, ReasoningMarks>();
  private readonly every: TokenMask;

  constructor(private readonly tokenizer: Tokenizer) {
    this.every = everyToken(tokenizer.vocabularySize);
  }

  /**
   * @param opened the tokens of one answer; absent: it may be any
   */
  hold(opened: TokenConstraint | undefined, { reasoning, budget }: ReasoningLimit): TokenConstraint {
    const phase = reasoning.isBegun ? 'reasoning' : 'before';
    return new ReasoningBudget(opened ?? new FreeTokens(this.every), this.marksOf(reasoning), phase, budget);
  }

  private marksOf({ begin, end }: HeldReasoning): ReasoningMarks {
    const key = `${begin} ${end}`;
    const marks = this.marks.get(key) ?? new ReasoningMarks(this.tokenizer, { begin, end });
    this.marks.set(key, marks);
    return marks;
  }
}

function bytesOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}
