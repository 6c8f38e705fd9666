import { fileURLToPath } from 'node:url';
import { RocmForgeError } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { ConstrainedAnswer } from './constrained-answer.js';
import { MaskTime } from './mask-time.js';
import type { MatcherWorkerData } from './matcher-messages.js';
import { MatcherThread } from './matcher-thread.js';
import { matcherVocabulary } from './matcher-vocabulary.js';
import type { TokenConstraint } from './token-constraint.js';
import { Turns } from './turns.js';

export interface MatcherThreadsOptions {
  readonly tokenizer: Tokenizer;
  /** Each has a vocabulary of its own (about 0.2 GB for 128,000 tokens); started when they are needed. Default 2. */
  readonly threads?: number;
  /** How long a grammar may take to be compiled; default 10 s. */
  readonly compileLimitMs?: number;
  /** Answers that wait for their grammar to be compiled; default 256. */
  readonly maxWaiting?: number;
}

const THREADS = 2;
const COMPILE_LIMIT_MS = 10_000;
const MAX_WAITING = 256;

/** Threads run compiled JavaScript only; from a source file (vitest) that is the built twin under `dist/`. */
function workerFile(): string {
  const directory = fileURLToPath(new URL('.', import.meta.url));
  const built = import.meta.url.endsWith('.ts') ? directory.replace(/\/src\/gateway\//, '/dist/gateway/') : directory;
  return `${built}matcher-worker.js`;
}

/** An answer that waits for a thread. */
interface Waiting {
  readonly answer: ConstrainedAnswer;
  readonly opened: () => void;
  readonly refused: (error: Error) => void;
}

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
}

/** Works out which tokens may come next in answers of a form, in threads. An answer stays with its thread. */
export class MatcherThreads {
  private readonly threads: MatcherThread[] = [];
  /** Made before anything is served: for 128,000 tokens it would hold the loop up. */
  private readonly data: MatcherWorkerData;
  private readonly waiting = new Turns<Waiting>();
  private readonly maskTime = new MaskTime();
  private isClosed = false;
  private endedEvictions = 0;
  private replacedThreads = 0;

  constructor(private readonly options: MatcherThreadsOptions) {
    this.data = matcherVocabulary(options.tokenizer);
  }

  get counts(): GrammarCounts {
    const sum = (read: (thread: MatcherThread) => number) => this.threads.reduce((all, each) => all + read(each), 0);
    return {
      heapBytes: sum(({ memory }) => memory.heapBytes),
      grammarBytes: sum(({ memory }) => memory.grammarBytes),
      grammars: sum(({ memory }) => memory.grammars),
      evictions: this.endedEvictions + sum(({ evictions }) => evictions),
      replacedThreads: this.replacedThreads,
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
    if (this.waiting.size >= (this.options.maxWaiting ?? MAX_WAITING)) {
      const error = new RocmForgeError(
        'QUEUE_FULL',
        `${this.waiting.size} grammars wait to be compiled; try again later`,
      );
      const crowding = this.waiting.crowding(principal);
      if (crowding === undefined) throw error;
      this.waiting.remove(crowding.answer.client, crowding);
      crowding.refused(error);
    }
    const answer = new ConstrainedAnswer(constraint, principal);
    await this.place(answer, signal);
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
    this.isClosed = true;
    await Promise.all(this.threads.map((thread) => thread.end()));
  }

  private async place(answer: ConstrainedAnswer, signal?: AbortSignal): Promise<void> {
    if (this.isClosed) throw new RocmForgeError('SHUTTING_DOWN', 'this gateway is shutting down');
    signal?.throwIfAborted();
    let leave = (): void => undefined;
    try {
      await new Promise<void>((opened, refused) => {
        const waiting = { answer, opened, refused };
        leave = () => {
          if (this.waiting.remove(answer.client, waiting)) refused(signal?.reason);
        };
        signal?.addEventListener('abort', leave, { once: true });
        this.waiting.add(answer.client, waiting);
        this.serve();
      });
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  /** Gives threads that are free what waits. */
  private serve(): void {
    const mayGo = ({ answer }: Waiting, client: string): boolean => {
      const isKnown = this.threads.some((thread) => !thread.isWorn && thread.knows(answer.form));
      return (isKnown || this.mayCompile(client)) && !this.threadFor(answer.form).isOpening;
    };
    for (let next = this.waiting.take(mayGo); next !== undefined; next = this.waiting.take(mayGo)) {
      const { answer, opened, refused } = next;
      // Nobody wants one any more that came back from a thread which ended.
      if (answer.isClosed) opened();
      else {
        this.threadFor(answer.form)
          .open(answer)
          .then(opened, refused)
          .finally(() => this.serve());
      }
    }
  }

  private mayCompile(client: string): boolean {
    const most = Math.max(1, (this.options.threads ?? THREADS) - 1);
    return this.threads.filter(({ opensFor }) => opensFor === client).length < most;
  }

  /**
   * The thread that an answer goes to: one that knows its grammar, else one without answers, which a long compilation
   * would hold up, else the one with the fewest.
   */
  private threadFor(form: string): MatcherThread {
    const threads = this.threads.filter((thread) => !thread.isWorn);
    const byLoad = threads.toSorted((a, b) => Number(a.isOpening) - Number(b.isOpening) || a.load - b.load);
    const knowing = byLoad.find((thread) => thread.knows(form));
    if (knowing !== undefined) return knowing;
    const [least] = byLoad;
    if (least !== undefined && least.load === 0 && !least.isOpening) return least;
    if (threads.length < (this.options.threads ?? THREADS)) return this.start();
    return least as MatcherThread;
  }

  private start(): MatcherThread {
    const limit = this.options.compileLimitMs ?? COMPILE_LIMIT_MS;
    const thread = new MatcherThread(workerFile(), this.data, limit, this.maskTime, (lost) => {
      this.threads.splice(this.threads.indexOf(thread), 1);
      this.endedEvictions += thread.evictions;
      this.replacedThreads += Number(thread.isOutgrown);
      // They go on where they were, with another thread.
      for (const answer of lost) this.place(answer).catch((error: Error) => answer.fail(error));
    });
    this.threads.push(thread);
    this.limitWorn();
    return thread;
  }

  /** As many threads may end with their last answer as take answers; of more the first ends now, and its answers move. */
  private limitWorn(): void {
    const worn = this.threads.filter((thread) => thread.isWorn && !thread.isOpening);
    if (worn.length > (this.options.threads ?? THREADS)) void worn[0]?.end();
  }
}
