import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { ConstrainedAnswer } from './constrained-answer.js';
import { MaskTime } from './mask-time.js';
import { MatcherPool, type MatcherPoolOptions } from './matcher-pool.js';
import type { MatcherThread } from './matcher-thread.js';
import { matcherVocabulary } from './matcher-vocabulary.js';
import type { TokenConstraint } from './token-constraint.js';

export interface MatcherThreadsOptions {
  readonly tokenizer: Tokenizer;
  /** Each has a vocabulary of its own (about 0.2 GB for 128,000 tokens); started when they are needed. Default 2. */
  readonly threads?: number;
  /** How long a grammar may take to be compiled; default 10 s. */
  readonly compileLimitMs?: number;
  /** How long one mask may take; default: `MASK_TIME.mostMs`. */
  readonly maskLimitMs?: number;
  /** Answers that wait for their grammar to be compiled; default 256. */
  readonly maxWaiting?: number;
}

const THREADS = 2;
const COMPILE_LIMIT_MS = 10_000;
const MAX_WAITING = 256;

/** Whose call it is: clients take turns. */
export interface Caller {
  readonly principal: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
}

/** What compiled grammars take, and what was given up for others. */
export interface GrammarCounts {
  /** Bytes of the engines' heaps, with all that they hold. */
  readonly heapBytes: number;
  /** Bytes of compiled grammars that are kept for later answers. */
  readonly grammarBytes: number;
  readonly grammars: number;
  /** Compiled grammars evicted so far. */
  readonly evictions: number;
  /** Threads replaced so far because their heap had grown beyond its bound. */
  readonly replacedThreads: number;
  /** Answers that have moved to the thread for slow ones so far. */
  readonly movedAnswers: number;
}

/**
 * Works out which tokens may come next in answers of a form, in threads. An answer whose masks keep those of other clients waiting
 * moves to a thread for such answers, which lives as long as it has any.
 */
export class MatcherThreads {
  private readonly ordinary: MatcherPool;
  private readonly slow: MatcherPool;
  private movedAnswers = 0;

  constructor({ tokenizer, threads, compileLimitMs, maskLimitMs, maxWaiting }: MatcherThreadsOptions) {
    const options: MatcherPoolOptions = {
      threads: threads ?? THREADS,
      // Made before anything is served: for 128,000 tokens it would hold the loop up.
      vocabulary: matcherVocabulary(tokenizer),
      compileLimitMs: compileLimitMs ?? COMPILE_LIMIT_MS,
      maskLimitMs,
      maxWaiting: maxWaiting ?? MAX_WAITING,
      maskTime: new MaskTime(),
      endsIdle: false,
    };
    this.ordinary = new MatcherPool({ ...options, onSlow: (answer) => this.moveApart(answer) });
    this.slow = new MatcherPool({ ...options, threads: 1, endsIdle: true });
  }

  get counts(): GrammarCounts {
    const pools = [this.ordinary, this.slow];
    const threads = pools.flatMap((pool) => pool.threads);
    const sum = (read: (thread: MatcherThread) => number) => threads.reduce((all, each) => all + read(each), 0);
    return {
      heapBytes: sum(({ memory }) => memory.heapBytes),
      grammarBytes: sum(({ memory }) => memory.grammarBytes),
      grammars: sum(({ memory }) => memory.grammars),
      evictions: pools.reduce((all, pool) => all + pool.endedEvictions, 0) + sum(({ evictions }) => evictions),
      replacedThreads: pools.reduce((all, pool) => all + pool.replacedThreads, 0),
      movedAnswers: this.movedAnswers,
    };
  }

  /**
   * Begins an answer of a form; resolves when its first mask is known. Clients take turns, and one client's grammars are compiled
   * by all threads but one: that is for the others.
   *
   * @throws RocmForgeError `INVALID_FIELD` for a constraint that cannot be kept, or takes too long to be compiled; `QUEUE_FULL`.
   *         The reason of the caller's signal where that is aborted meanwhile
   */
  async open(constraint: GivenConstraint, { principal, signal }: Caller): Promise<TokenConstraint> {
    this.ordinary.admit(principal);
    const answer = new ConstrainedAnswer(constraint, principal);
    await this.ordinary.place(answer, signal);
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

  async close(): Promise<void> {
    await Promise.all([this.ordinary.close(), this.slow.close()]);
  }

  private moveApart(answer: ConstrainedAnswer): void {
    this.movedAnswers += 1;
    this.slow.place(answer).catch((error: Error) => answer.fail(error));
  }
}
