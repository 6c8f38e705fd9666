import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { ConstrainedAnswer } from './constrained-answer.js';
import { GrammarCache } from './grammar-cache.js';
import { GrammarThreads } from './grammar-threads.js';
import { type GrammarMatcher, type MaskVocabulary, maskAddon } from './mask-addon.js';
import { MaskQueue } from './mask-queue.js';
import { MaskTime } from './mask-time.js';
import { SlowMasks } from './slow-masks.js';
import type { TokenConstraint } from './token-constraint.js';
import { vocabularyOf } from './vocabulary.js';

export interface MatchersOptions {
  readonly tokenizer: Tokenizer;
  /** Threads that turn constraints into grammars, and as many that compute masks at once; default 2. */
  readonly threads?: number;
  /** Constraints that wait to be turned into grammars; default 256. */
  readonly maxWaiting?: number;
}

const THREADS = 2;
const MAX_WAITING = 256;

/** Whose call it is: clients take turns. */
export interface Caller {
  readonly principal: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
}

/** Memory of grammars, and evictions. */
export interface GrammarCounts {
  /** Bytes of the vocabulary's tries, of automata, and of masks. */
  readonly engineBytes: number;
  /** Bytes of grammars that are kept for later answers. */
  readonly grammarBytes: number;
  readonly grammars: number;
  /** Grammars evicted so far. */
  readonly evictions: number;
}

/** Computes which tokens may come next in answers of a form. */
export class Matchers {
  private readonly vocabulary: MaskVocabulary;
  private readonly threads: GrammarThreads;
  private readonly cache = new GrammarCache();
  private readonly queue: MaskQueue;

  constructor({ tokenizer, threads = THREADS, maxWaiting = MAX_WAITING }: MatchersOptions) {
    const { vocabulary, names } = vocabularyOf(tokenizer);
    this.vocabulary = vocabulary;
    this.threads = new GrammarThreads({ names, threads, maxWaiting });
    const nowMs = () => performance.now();
    this.queue = new MaskQueue(vocabulary, new MaskTime(nowMs), new SlowMasks(nowMs), threads);
  }

  get counts(): GrammarCounts {
    const { bytes, size, evictions } = this.cache;
    return { engineBytes: this.vocabulary.allocatedBytes, grammarBytes: bytes, grammars: size, evictions };
  }

  /**
   * Begins an answer of a form; resolves when its first mask is known.
   *
   * @throws RocmForgeError as `GrammarThreads.make`; `CONSTRAINT_UNSUPPORTED`, `CONSTRAINT_TOO_SLOW` where the first mask takes too much
   */
  async open(constraint: GivenConstraint, caller: Caller): Promise<TokenConstraint> {
    const answer = new ConstrainedAnswer(constraint, caller.principal);
    const matcher = await this.matcher(answer, caller);
    await new Promise<void>((ready, failed) => {
      answer.listen({ ready, failed });
      answer.start(matcher, this.queue);
    }).catch((error: Error) => {
      answer.close();
      throw error;
    });
    return answer;
  }

  /** As {@link open}, for each of n completions; none where nothing restricts them. */
  async openEach(
    constraint: GivenConstraint | undefined,
    n: number,
    caller: Caller,
  ): Promise<readonly TokenConstraint[] | undefined> {
    if (constraint === undefined) return undefined;
    const opened: TokenConstraint[] = [];
    try {
      for (let i = 0; i < n; i++) opened.push(await this.open(constraint, caller));
      return opened;
    } catch (error) {
      for (const each of opened) each.close();
      throw error;
    }
  }

  /** See {@link GrammarThreads.warmUp}. */
  warmUp(): void {
    this.threads.warmUp();
  }

  close(): Promise<void> {
    return this.threads.close();
  }

  /** A matcher of the answer's grammar, before that may be evicted. */
  private async matcher({ form, constraint, client }: ConstrainedAnswer, caller: Caller): Promise<GrammarMatcher> {
    const { GrammarMatcher, MaskGrammar } = maskAddon();
    const known = this.cache.get(form);
    if (known !== undefined) return new GrammarMatcher(known);
    const buffer = await this.threads.make(constraint, caller);
    const grammar = await this.vocabulary.prepare(buffer, MaskGrammar);
    const matcher = new GrammarMatcher(grammar);
    this.cache.add(form, client, grammar);
    if (caller.signal?.aborted) matcher.close();
    caller.signal?.throwIfAborted();
    return matcher;
  }
}
