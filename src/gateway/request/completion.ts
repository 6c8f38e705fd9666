import { Detokenizer } from '../../lib/tokenizer/detokenizer.js';
import { StopMatcher, type StopResult, type StopStrings } from '../../lib/tokenizer/stop-matcher.js';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { AnswerParser } from '../chat/answer/answer-parser.js';
import { type AnswerParts, partsOf } from './answer.js';

/** When a completion ends, beside running out of tokens. */
export interface StopOptions {
  readonly strings: StopStrings;
  readonly tokenIds: ReadonlySet<number>;
  readonly includeStopString: boolean;
  readonly ignoreEos: boolean;
  /** 0: the prompt is computed, and nothing is generated. */
  readonly maxTokens: number;
  /** Stop strings count from here on. Tokens that would end the text are held down on the device until then. */
  readonly minTokens: number;
  readonly includeSpecialTokens: boolean;
}

/** `tool_calls`: as `stop`, and the turn calls functions. */
export type Finish =
  | { readonly reason: 'stop' | 'tool_calls'; readonly stopString: string }
  | { readonly reason: 'stop' | 'tool_calls'; readonly tokenId: number }
  /** The constraint on the text allows nothing to follow. */
  | { readonly reason: 'stop' | 'tool_calls' }
  | { readonly reason: 'length' }
  | { readonly reason: 'time_limit' };

/** Text that a token adds, and whether it was the last. */
export interface CompletionStep {
  readonly text: string;
  /** If the answer is read: additions to the reasoning and the calls. */
  readonly beside?: AnswerParts | undefined;
  readonly finish: Finish | undefined;
}

/**
 * One completion's text: ids in, certain text out, until a stop rule ends it. Pure.
 *
 * Stop strings are looked for in all that the model writes, in reasoning and calls, too. Special tokens that are markup to the
 * answer's parser go past them: they are no text, and no stop string reaches over one. A special token whose name is a stop
 * string ends the text.
 */
export class Completion {
  private readonly detokenizer: Detokenizer;
  private readonly matcher: StopMatcher;
  /** Number of its tokens. */
  tokens = 0;
  /** Number of its tokens when the last of the reasoning was certain. */
  reasoningTokens = 0;

  /** @param parser reads reasoning and calls out of the text; undefined: all of it is content */
  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly stop: StopOptions,
    private readonly parser?: AnswerParser | undefined,
  ) {
    this.detokenizer = new Detokenizer(tokenizer, { wholeText: false, includeSpecial: stop.includeSpecialTokens });
    this.matcher = new StopMatcher(stop.strings, { include: stop.includeStopString });
  }

  push(tokenId: number): CompletionStep {
    this.tokens += 1;
    const { text, stop: stopString } = this.textOf(tokenId);
    if (this.tokens < this.stop.minTokens) return this.step(text);
    if (stopString !== undefined) return this.lastStep(text, { reason: 'stop', stopString });
    const stops = this.stop.tokenIds.has(tokenId) || (!this.stop.ignoreEos && this.tokenizer.eogIds.has(tokenId));
    if (stops) return this.last(text, { reason: 'stop', tokenId });
    const name = this.stopNameOf(tokenId);
    if (name !== undefined) {
      const shown = this.stop.includeStopString ? name : '';
      return this.lastStep(text + shown, { reason: 'stop', stopString: name });
    }
    if (this.tokens >= this.stop.maxTokens) return this.last(text, { reason: 'length' });
    const step = this.step(text);
    return this.parser?.isOver ? { ...step, finish: { reason: 'tool_calls', tokenId } } : step;
  }

  /** Ends the text where it is; what was held back is certain now. */
  end(finish: Finish): CompletionStep {
    return this.last('', finish);
  }

  /** The text that a token makes certain. */
  private textOf(tokenId: number): StopResult {
    // A token that ends the text is not markup, and what comes before it is certain.
    const marker = this.stopNameOf(tokenId) === undefined ? this.markerOf(tokenId) : '';
    const text = marker === undefined ? this.detokenizer.push(tokenId) : this.detokenizer.finish();
    const matched = this.tokens < this.stop.minTokens ? { text, stop: undefined } : this.matcher.push(text);
    if (marker === undefined || matched.stop !== undefined) return matched;
    return { text: matched.text + this.matcher.finish() + marker, stop: undefined };
  }

  /** The name of a token that is not a text and means something to the parser. */
  private markerOf(tokenId: number): string | undefined {
    const { tokenizer, parser, stop } = this;
    if (parser === undefined || stop.includeSpecialTokens || tokenizer.isRendered(tokenId)) return undefined;
    const name = tokenizer.tokenText(tokenId);
    return parser.markers.has(name) ? name : undefined;
  }

  /** The name of a token that is not a text, where it is one of the stop strings. */
  private stopNameOf(tokenId: number): string | undefined {
    const { tokenizer, stop } = this;
    if (stop.strings.texts.size === 0 || this.tokens < stop.minTokens) return undefined;
    if (stop.includeSpecialTokens || tokenizer.isRendered(tokenId)) return undefined;
    const name = tokenizer.tokenText(tokenId);
    return stop.strings.texts.has(name) ? name : undefined;
  }

  private last(text: string, finish: Finish): CompletionStep {
    const rest = this.matcher.push(this.detokenizer.finish());
    if (rest.stop !== undefined) return this.lastStep(text + rest.text, { reason: 'stop', stopString: rest.stop });
    return this.lastStep(text + rest.text + this.matcher.finish(), finish);
  }

  private step(text: string): CompletionStep {
    if (this.parser === undefined) return { text, finish: undefined };
    const parts = partsOf(this.parser.push(text));
    if (parts.beside !== undefined && parts.beside.reasoning !== '') this.reasoningTokens = this.tokens;
    return { ...parts, finish: undefined };
  }

  private lastStep(text: string, finish: Finish): CompletionStep {
    const { parser } = this;
    if (parser === undefined) return { text, finish };
    const isCut = finish.reason === 'length' || finish.reason === 'time_limit';
    const parts = partsOf([...parser.push(text), ...parser.finish(isCut)]);
    if (parts.beside !== undefined && parts.beside.reasoning !== '') this.reasoningTokens = this.tokens;
    const callsFunctions = finish.reason === 'stop' && parser.hasWholeCalls;
    return { ...parts, finish: callsFunctions ? { ...finish, reason: 'tool_calls' } : finish };
  }
}
