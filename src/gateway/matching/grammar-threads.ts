import { Worker } from 'node:worker_threads';
import { type ErrorReason, RocmForgeError } from '../../shared/errors.js';
import { workerFile } from '../../shared/worker-file.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { SpecialTokenNames } from '../constraints/special-token-names.js';
import type { Caller } from './matchers.js';
import { Turns } from './turns.js';

/** Result of a thread for a constraint. */
export type MadeGrammar =
  /** See `grammarBuffer`. */
  | { readonly buffer: Uint8Array }
  | {
      readonly reason: ErrorReason;
      readonly message: string;
      readonly metadata: Readonly<Record<string, string>>;
    };

/** Data that a thread is started with. */
export interface GrammarThread {
  readonly names: SpecialTokenNames;
  /** True if it is started before it is needed: it warms up. */
  readonly isEarly: boolean;
}

export interface GrammarThreadsOptions {
  readonly names: SpecialTokenNames;
  /** Threads; each is started when it is needed, or by {@link GrammarThreads.warmUp}. */
  readonly threads: number;
  /** Constraints that wait for a thread. */
  readonly maxWaiting: number;
}

/** Megabytes of a thread's heap, beyond which it ends, and not the process. */
const MAX_HEAP_MB = 512;
/** Part of the heap for V8's young generation. */
const YOUNG_HEAP_MB = 6;

interface Waiting {
  readonly client: string;
  readonly constraint: GivenConstraint;
  /** Called when a thread takes it. */
  readonly begun: () => void;
  readonly resolve: (buffer: Uint8Array) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Threads that turn constraints into grammars, which takes milliseconds, or seconds at most: it is counted work. Clients take turns,
 * and one client's constraints have all threads but one: that is for the others.
 */
export class GrammarThreads {
  private readonly waiting = new Turns<Waiting>();
  private readonly idle: Worker[] = [];
  private readonly busy = new Map<Worker, Waiting>();
  private isClosed = false;

  constructor(private readonly options: GrammarThreadsOptions) {}

  /**
   * The buffer of a constraint's grammar.
   *
   * @param begun called when a thread takes the constraint
   * @throws RocmForgeError as `grammarOf`; `QUEUE_FULL` where this client has its part of those that wait; `SHUTTING_DOWN`. The reason
   *   of the caller's signal where that is aborted while it waits
   */
  async make(
    constraint: GivenConstraint,
    { principal: client, signal }: Caller,
    begun: () => void = () => undefined,
  ): Promise<Uint8Array> {
    if (this.isClosed) throw closed();
    signal?.throwIfAborted();
    this.admit(client);
    let leave = (): void => undefined;
    try {
      return await new Promise<Uint8Array>((resolve, reject) => {
        const waiting = { client, constraint, begun, resolve, reject };
        leave = () => {
          if (this.waiting.remove(client, waiting)) reject(signal?.reason);
        };
        signal?.addEventListener('abort', leave, { once: true });
        this.waiting.add(client, waiting);
        this.serve();
      });
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  /** Starts a thread before it is needed, and lets V8 compile its code: the first constraint takes ten times as long without that. */
  warmUp(): void {
    if (!this.isClosed && this.idle.length + this.busy.size === 0) this.idle.push(this.start(true));
  }

  async close(): Promise<void> {
    this.isClosed = true;
    for (let next = this.waiting.take(() => true); next !== undefined; next = this.waiting.take(() => true)) {
      next.reject(closed());
    }
    await Promise.all([...this.idle, ...this.busy.keys()].map((worker) => worker.terminate()));
  }

  /** Makes room for one more that waits. */
  private admit(client: string): void {
    if (this.waiting.size < this.options.maxWaiting) return;
    const error = new RocmForgeError(
      'QUEUE_FULL',
      `${this.waiting.size} constraints wait for compilation; try again later`,
    );
    const crowding = this.waiting.crowding(client);
    if (crowding === undefined) throw error;
    this.waiting.remove(crowding.client, crowding);
    crowding.reject(error);
  }

  private serve(): void {
    const { threads } = this.options;
    const most = Math.max(1, threads - 1);
    const mayGo = (_: Waiting, client: string): boolean =>
      [...this.busy.values()].filter((job) => job.client === client).length < most;
    while (!this.isClosed && this.busy.size < threads) {
      const next = this.waiting.take(mayGo);
      if (next === undefined) return;
      const worker = this.idle.pop() ?? this.start();
      this.busy.set(worker, next);
      worker.postMessage(next.constraint);
      next.begun();
    }
  }

  private start(isEarly = false): Worker {
    const worker = new Worker(workerFile('grammar-worker'), {
      workerData: { names: this.options.names, isEarly } satisfies GrammarThread,
      name: 'grammar',
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB, maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    });
    worker.unref();
    worker.on('message', (made: MadeGrammar) => {
      const job = this.taken(worker);
      this.idle.push(worker);
      if ('buffer' in made) job?.resolve(made.buffer);
      else job?.reject(new RocmForgeError(made.reason, made.message, made.metadata));
      this.serve();
    });
    worker.on('error', () => undefined);
    worker.on('exit', () => {
      const at = this.idle.indexOf(worker);
      if (at >= 0) this.idle.splice(at, 1);
      this.taken(worker)?.reject(
        this.isClosed ? closed() : new RocmForgeError('INTERNAL', 'the thread of a grammar has ended'),
      );
      this.serve();
    });
    return worker;
  }

  private taken(worker: Worker): Waiting | undefined {
    const job = this.busy.get(worker);
    this.busy.delete(worker);
    return job;
  }
}

const closed = () => new RocmForgeError('SHUTTING_DOWN', 'this gateway is shutting down');
