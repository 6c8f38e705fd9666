import { Detokenizer } from '../tokenizer/detokenizer.js';
import { StopMatcher, type StopStrings } from '../tokenizer/stop-matcher.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';

/** When a completion ends, beside running out of tokens. */
export interface StopOptions {
  readonly strings: StopStrings;
  readonly tokenIds: ReadonlySet<number>;
  readonly includeStopString: boolean;
  readonly ignoreEos: boolean;
  readonly maxTokens: number;
  /** Stop strings count from here on. Tokens that would end the text are held down on the device until then. */
  readonly minTokens: number;
  readonly includeSpecialTokens: boolean;
}

export type Finish =
  | { readonly reason: 'stop'; readonly stopString: string }
  | { readonly reason: 'stop'; readonly tokenId: number }
  /** What restricts the text lets nothing follow. */
  | { readonly reason: 'stop' }
  | { readonly reason: 'length' }
  | { readonly reason: 'time_limit' };

/** What a token adds to the text, and whether it was the last. */
export interface CompletionStep {
  readonly text: string;
  readonly finish: Finish | undefined;
}

/** One completion's text: ids in, certain text out, until a stop rule ends it. Pure. */
export class Completion {
  private readonly detokenizer: Detokenizer;
  private readonly matcher: StopMatcher;
  /** How many it has taken. */
  tokens = 0;

  constructor(
    private readonly tokenizer: Tokenizer,
    private readonly stop: StopOptions,
  ) {
    this.detokenizer = new Detokenizer(tokenizer, { wholeText: false, includeSpecial: stop.includeSpecialTokens });
    this.matcher = new StopMatcher(stop.strings, { include: stop.includeStopString });
  }

  push(tokenId: number): CompletionStep {
    this.tokens += 1;
    if (this.tokens < this.stop.minTokens) return { text: this.detokenizer.push(tokenId), finish: undefined };
    const matched = this.matcher.push(this.detokenizer.push(tokenId));
    if (matched.stop !== undefined) {
      return { text: matched.text, finish: { reason: 'stop', stopString: matched.stop } };
    }
    const stops = this.stop.tokenIds.has(tokenId) || (!this.stop.ignoreEos && this.tokenizer.eogIds.has(tokenId));
    if (stops) return this.last(matched.text, { reason: 'stop', tokenId });
    if (this.tokens >= this.stop.maxTokens) return this.last(matched.text, { reason: 'length' });
    return { text: matched.text, finish: undefined };
  }

  /** Ends the text where it is; what was held back is certain now. */
  end(finish: Finish): CompletionStep {
    return this.last('', finish);
  }

  private last(text: string, finish: Finish): CompletionStep {
    const rest = this.matcher.push(this.detokenizer.finish());
    if (rest.stop !== undefined) {
      return { text: text + rest.text, finish: { reason: 'stop', stopString: rest.stop } };
    }
    return { text: text + rest.text + this.matcher.finish(), finish };
  }
}
