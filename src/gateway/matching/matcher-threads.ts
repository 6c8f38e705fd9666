import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { RocmForgeError } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { type AnswerThread, ConstrainedAnswer } from './constrained-answer.js';
import { fieldOf } from './constraint-field.js';
import {
  type AcceptedTokens,
  type MatcherJob,
  type MatcherMessage,
  type MatcherWorkerData,
  MOST_GRAMMARS,
  type NextMasks,
  type ThreadMask,
} from './matcher-messages.js';
import { matcherVocabulary } from './matcher-vocabulary.js';
import type { GuessedToken, TokenConstraint, TokenMask } from './token-constraint.js';
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

/** Works out which tokens may come next in answers of a form, in threads. An answer stays with its thread. */
export class MatcherThreads {
  private readonly threads: MatcherThread[] = [];
  private data: MatcherWorkerData | undefined;
  private readonly waiting = new Turns<Waiting>();
  private isClosed = false;

  constructor(private readonly options: MatcherThreadsOptions) {}

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
    this.data ??= matcherVocabulary(this.options.tokenizer);
    const limit = this.options.compileLimitMs ?? COMPILE_LIMIT_MS;
    const thread = new MatcherThread(workerFile(), this.data, limit, (lost) => {
      this.threads.splice(this.threads.indexOf(thread), 1);
      // They go on where they were, with another thread.
      for (const answer of lost) this.place(answer).catch((error: Error) => answer.fail(error));
    });
    this.threads.push(thread);
    return thread;
  }
}

/** One thread, and the answers that it has. */
class MatcherThread implements AnswerThread {
  private readonly worker: Worker;
  private readonly answers = new Map<number, ConstrainedAnswer>();
  /** Those that it has compiled, by {@link ConstrainedAnswer.form}. */
  private readonly forms = new Set<string>();
  private readonly masks = new Map<number, TokenMask>();
  private lastId = 0;
  /** Tokens that it is to be told of. */
  private readonly outbox = new Map<ConstrainedAnswer, number[]>();
  private opening: { answer: ConstrainedAnswer; resolve: () => void; reject: (error: Error) => void } | undefined;
  private timer: NodeJS.Timeout | undefined;
  private isReady = false;
  /** It takes no more answers: it ends now, or, where the library gave up once, with its last one. */
  isWorn = false;

  constructor(
    file: string,
    data: MatcherWorkerData,
    private readonly compileLimitMs: number,
    private readonly onEnd: (lost: readonly ConstrainedAnswer[]) => void,
  ) {
    this.worker = new Worker(file, { workerData: data });
    this.worker.unref();
    this.worker.on('message', (message: MatcherMessage) => this.hear(message));
    this.worker.on('error', () => undefined);
    this.worker.on('exit', () => this.lost(new RocmForgeError('INTERNAL', 'the grammar thread ended')));
  }

  get load(): number {
    return this.answers.size;
  }

  get isOpening(): boolean {
    return this.opening !== undefined;
  }

  /** The client whose answer it opens. */
  get opensFor(): string | undefined {
    return this.opening?.answer.client;
  }

  knows(form: string): boolean {
    return this.forms.has(form);
  }

  /** Takes an answer, as far as it has come. @throws as {@link MatcherThreads.open} */
  open(answer: ConstrainedAnswer): Promise<void> {
    this.lastId += 1;
    answer.id = this.lastId;
    answer.thread = this;
    this.answers.set(answer.id, answer);
    const opened = new Promise<void>((resolve, reject) => {
      this.opening = { answer, resolve, reject };
    });
    this.post({
      kind: 'open',
      id: answer.id,
      form: answer.form,
      constraint: answer.constraint,
      tokenIds: [...answer.tokenIds],
    });
    if (this.isReady) this.watch(answer);
    return opened;
  }

  accept(answer: ConstrainedAnswer, tokenId: number): void {
    if (this.outbox.size === 0) queueMicrotask(() => this.flush());
    const accepted = this.outbox.get(answer);
    if (accepted === undefined) this.outbox.set(answer, [tokenId]);
    else accepted.push(tokenId);
  }

  drop(answer: ConstrainedAnswer): void {
    this.answers.delete(answer.id);
    this.post({ kind: 'close', id: answer.id });
    this.endIfWorn();
  }

  async end(): Promise<void> {
    await this.worker.terminate();
  }

  private flush(): void {
    const answers = [...this.outbox].map(([answer, tokenIds]): AcceptedTokens => {
      return { id: answer.id, tokenIds, guesses: answer.guesses() };
    });
    this.outbox.clear();
    this.post({ kind: 'accept', answers });
  }

  private post(job: MatcherJob): void {
    this.worker.postMessage(job);
  }

  /** A grammar that takes too long takes its thread along: nothing else can stop it. */
  private watch({ constraint }: ConstrainedAnswer): void {
    this.timer = setTimeout(() => {
      const seconds = this.compileLimitMs / 1000;
      // Nobody else is to come to a thread that ends.
      this.isWorn = true;
      this.settle(refused(constraint, `takes more than ${seconds} s to be compiled; ask for less at once`));
      void this.worker.terminate();
    }, this.compileLimitMs);
  }

  private settle(error?: Error): void {
    clearTimeout(this.timer);
    const { opening } = this;
    this.opening = undefined;
    if (opening === undefined) return;
    if (error === undefined) {
      opening.resolve();
      return;
    }
    this.answers.delete(opening.answer.id);
    opening.answer.thread = undefined;
    opening.reject(error);
  }

  private hear(message: MatcherMessage): void {
    if (message.kind === 'ready') {
      this.isReady = true;
      if (this.opening !== undefined) this.watch(this.opening.answer);
      return;
    }
    if (message.kind === 'masks') {
      for (const next of message.answers) this.ready(next);
      for (const key of message.forgotten) this.masks.delete(key);
      return;
    }
    const answer = this.answers.get(message.id);
    if (message.kind === 'broken') {
      const error = new RocmForgeError('INTERNAL', 'the answer has left its grammar');
      if (this.opening?.answer === answer) this.settle(error);
      else answer?.fail(error);
    } else if (message.kind === 'refused') {
      this.isWorn ||= message.isWorn;
      this.settle(new RocmForgeError(message.reason, message.message, message.metadata));
      this.endIfWorn();
    } else {
      if (answer !== undefined) this.remember(answer.form);
      this.ready({ ...message, ahead: [] });
      this.settle();
    }
  }

  private ready({ id, mask, ahead }: NextMasks): void {
    const next = this.maskOf(mask);
    const guessed = ahead.map((each): GuessedToken => ({ ...each, mask: this.maskOf(each.mask) }));
    this.answers.get(id)?.ready(next, guessed);
  }

  private maskOf({ key, bits, onlyEnds }: ThreadMask): TokenMask {
    if (bits !== undefined) this.masks.set(key, { bits, onlyEnds });
    return this.masks.get(key) as TokenMask;
  }

  /** As many forms as a thread keeps grammars of, the one used last at the end. */
  private remember(form: string): void {
    this.forms.delete(form);
    this.forms.add(form);
    const [oldest] = this.forms;
    if (this.forms.size > MOST_GRAMMARS && oldest !== undefined) this.forms.delete(oldest);
  }

  private endIfWorn(): void {
    if (this.isWorn && this.load === 0) void this.worker.terminate();
  }

  private lost(error: Error): void {
    this.settle(error);
    const answers = [...this.answers.values()];
    for (const answer of answers) answer.thread = undefined;
    this.onEnd(answers);
  }
}

function refused(constraint: GivenConstraint, why: string): RocmForgeError {
  const field = fieldOf(constraint);
  return new RocmForgeError('INVALID_FIELD', `${field} ${why}`, { field });
}
