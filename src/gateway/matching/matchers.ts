import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { JobOwner } from '../threads/worker-pool.js';
import { ConstrainedAnswer } from './constrained-answer.js';
import { fieldOf } from './constraint-field.js';
import { GrammarCache } from './grammar-cache.js';
import { GrammarThreads } from './grammar-threads.js';
import { type MaskVocabulary, maskAddon } from './mask-addon.js';
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

/** Constraints of a request's completions, whose first masks may be still to come. */
export interface OpenedConstraints {
  readonly constraints: readonly TokenConstraint[];
  /**
   * Resolves when the first masks are known or their answers have ended. Rejects with a RocmForgeError as `GrammarThreads.make`;
   * `CONSTRAINT_UNSUPPORTED`, `CONSTRAINT_TOO_SLOW` where a first mask takes too much: the answers are to be closed then, too.
   */
  readonly opened: Promise<void>;
}

/** A constraint on its way to a grammar. */
interface Translation {
  /** Resolves when a thread takes it. */
  readonly begun: Promise<void>;
  readonly buffer: Promise<Uint8Array>;
}

/** Computes which tokens may come next in answers of a form. */
export class Matchers {
  private readonly vocabulary: MaskVocabulary;
  private readonly threads: GrammarThreads;
  private readonly cache = new GrammarCache();
  /** By the signal of their call, and their form. */
  private readonly underWay = new WeakMap<AbortSignal, Map<string, Translation>>();
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
   * Begins the answers of n completions; resolves when a thread translates their constraint. Their prompts can be computed meanwhile:
   * they have no mask until then, and their listeners receive a failure as they do later.
   *
   * @throws RocmForgeError as `GrammarThreads.make` before it is begun
   */
  async begin(constraint: GivenConstraint, n: number, caller: JobOwner): Promise<OpenedConstraints> {
    const constraints = Array.from({ length: n }, () => new ConstrainedAnswer(constraint, caller.principal));
    const opened = Promise.all(constraints.map((answer) => answer.opened)).then(() => undefined);
    opened.catch(() => undefined);
    await new Promise<void>((begun, failed) => {
      this.start(constraints, caller, begun).catch((error: Error) => {
        for (const answer of constraints) answer.fail(error);
        failed(error);
      });
    });
    return { constraints, opened };
  }

  /**
   * As {@link begin}, for one answer; resolves when its first mask is known.
   *
   * @throws RocmForgeError as {@link OpenedConstraints.opened} rejects
   */
  async open(constraint: GivenConstraint, caller: JobOwner): Promise<TokenConstraint> {
    const { constraints, opened } = await this.begin(constraint, 1, caller);
    const [answer] = constraints as [TokenConstraint];
    await opened.catch((error: Error) => {
      answer.close();
      throw error;
    });
    return answer;
  }

  /** See {@link GrammarThreads.warmUp}. */
  warmUp(): void {
    this.threads.warmUp();
  }

  close(): Promise<void> {
    return this.threads.close();
  }

  /** Starts answers of one form: each has a matcher, which keeps the grammar, before the cache may evict it. */
  private async start(answers: readonly ConstrainedAnswer[], caller: JobOwner, begun: () => void): Promise<void> {
    const { GrammarMatcher, MaskGrammar } = maskAddon();
    const [{ form, constraint, client }] = answers as [ConstrainedAnswer];
    const known = this.cache.get(form);
    if (known !== undefined) begun();
    const grammar =
      known ??
      (await this.vocabulary
        .prepare(await this.translate(form, constraint, caller, begun), MaskGrammar)
        .catch((error: Error) => {
          const field = fieldOf(constraint);
          throw new RocmForgeError('CONSTRAINT_UNSUPPORTED', `${field} cannot be enforced: ${error.message}`, {
            field,
          });
        }));
    const isWanted = !caller.signal?.aborted;
    if (isWanted) for (const answer of answers) answer.start(new GrammarMatcher(grammar), this.queue);
    if (known === undefined) this.cache.add(form, client, grammar);
    if (!isWanted) caller.signal?.throwIfAborted();
  }

  /** The buffer of a constraint's grammar. The prompts of one call have one constraint, which is translated once. */
  private translate(
    form: string,
    constraint: GivenConstraint,
    caller: JobOwner,
    begun: () => void,
  ): Promise<Uint8Array> {
    const { signal } = caller;
    const underWay = (signal && this.underWay.get(signal)?.get(form)) ?? this.translation(constraint, caller);
    void underWay.begun.then(begun);
    if (signal === undefined) return underWay.buffer;
    const ofCall = this.underWay.get(signal) ?? new Map<string, Translation>();
    this.underWay.set(signal, ofCall.set(form, underWay));
    const forget = () => ofCall.delete(form);
    underWay.buffer.then(forget, forget);
    return underWay.buffer;
  }

  private translation(constraint: GivenConstraint, caller: JobOwner): Translation {
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    return { begun, buffer: this.threads.make(constraint, caller, begin) };
  }
}
