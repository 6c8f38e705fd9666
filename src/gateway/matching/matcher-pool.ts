import { fileURLToPath } from 'node:url';
import { RocmForgeError } from '../../shared/errors.js';
import type { ConstrainedAnswer } from './constrained-answer.js';
import { MatcherThread, type MatcherThreadOptions } from './matcher-thread.js';
import { Turns } from './turns.js';

export interface MatcherPoolOptions extends Omit<MatcherThreadOptions, 'file' | 'onEnd'> {
  /** Threads; each is started when it is needed. */
  readonly threads: number;
  /** Answers that wait for their grammar to be compiled. */
  readonly maxWaiting: number;
  /** Whether a thread ends with its last answer. */
  readonly endsIdle: boolean;
}

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

/** Threads among which answers are distributed. An answer stays with its thread as long as that lives. */
export class MatcherPool {
  readonly threads: MatcherThread[] = [];
  /** Grammars evicted in threads that have ended. */
  endedEvictions = 0;
  /** Threads replaced so far because their heap had grown beyond its bound. */
  replacedThreads = 0;
  private readonly waiting = new Turns<Waiting>();
  private isClosed = false;

  constructor(private readonly options: MatcherPoolOptions) {}

  /** Makes room for one more that waits. @throws RocmForgeError `QUEUE_FULL` where this client has its part of those */
  admit(client: string): void {
    if (this.waiting.size < this.options.maxWaiting) return;
    const error = new RocmForgeError(
      'QUEUE_FULL',
      `${this.waiting.size} grammars wait to be compiled; try again later`,
    );
    const crowding = this.waiting.crowding(client);
    if (crowding === undefined) throw error;
    this.waiting.remove(crowding.answer.client, crowding);
    crowding.refused(error);
  }

  /** Gives an answer, as far as it has come, to a thread. Resolves when its next mask is known. @throws as `MatcherThreads.open` */
  async place(answer: ConstrainedAnswer, signal?: AbortSignal): Promise<void> {
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

  async close(): Promise<void> {
    this.isClosed = true;
    await Promise.all(this.threads.map((thread) => thread.end()));
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
    const most = Math.max(1, this.options.threads - 1);
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
    if (threads.length < this.options.threads) return this.start();
    return least as MatcherThread;
  }

  private start(): MatcherThread {
    const { threads, maxWaiting, ...options } = this.options;
    const thread = new MatcherThread({
      ...options,
      file: workerFile(),
      onEnd: (lost, opening) => {
        this.threads.splice(this.threads.indexOf(thread), 1);
        this.endedEvictions += thread.evictions;
        this.replacedThreads += Number(thread.isOutgrown);
        // They go on where they were, with another thread.
        for (const answer of lost) this.place(answer).catch((error: Error) => answer.fail(error));
        if (opening !== undefined) this.place(opening.answer).then(opening.resolve, opening.reject);
      },
    });
    this.threads.push(thread);
    this.limitWorn();
    return thread;
  }

  /** As many threads may end with their last answer as take answers; of more the first ends now, and its answers move. */
  private limitWorn(): void {
    const worn = this.threads.filter((thread) => thread.isWorn && !thread.isOpening);
    if (worn.length > this.options.threads) void worn[0]?.end();
  }
}
