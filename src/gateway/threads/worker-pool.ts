import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { asRocmForgeError, type ErrorReason, RocmForgeError } from '../../shared/errors.js';

/** Owner of a job. */
export interface JobOwner {
  /** Clients take turns. */
  readonly principal: string;
  /** Aborted when the result is not wanted any more. */
  readonly signal?: AbortSignal | undefined;
}

/** Messages of a thread: that it can take jobs, that its job is in another phase, and the end of its job. */
export type ThreadMessage<Output> =
  | { readonly event: 'ready' }
  | { readonly event: 'phase'; readonly phase: string }
  | { readonly event: 'done'; readonly output: Output }
  | {
      readonly event: 'failed';
      readonly reason: ErrorReason;
      readonly message: string;
      readonly metadata: Readonly<Record<string, string>>;
    };

/** Errors of a pool, in the words of what it does. */
export interface PoolErrors {
  /** Refusal of a job beside so many that wait. */
  readonly full: (waiting: number) => RocmForgeError;
  readonly closed: () => RocmForgeError;
  /** Error of a job whose owner has gone; default: the reason of its owner's signal. */
  readonly cancelled?: () => RocmForgeError;
  /** @param how `failed: …`, or `ended with code …` */
  readonly lost: (how: string, phase: string | undefined, cause?: Error) => RocmForgeError;
  /** @param took `took longer than … s` */
  readonly late: (took: string, phase: string | undefined) => RocmForgeError;
}

export interface WorkerPoolOptions {
  /** Name of the threads. */
  readonly name: string;
  /** Their program, compiled. */
  readonly file: string;
  /**
   * `workerData` of a thread that starts.
   *
   * @param isEarly true before a job needs it
   * @throws RocmForgeError of the job that needs the thread
   */
  readonly data: (isEarly: boolean) => object;
  /** Called before each job. @throws RocmForgeError of the job */
  readonly check?: () => void;
  readonly threads: number;
  /** Threads that one principal's jobs may have at once; default all. */
  readonly threadsOfOne?: number;
  /** A thread's heap in megabytes, beyond which it ends, and not the process. */
  readonly heapMb: number;
  /** Part of the heap for V8's young generation: more is not given back between jobs. */
  readonly youngHeapMb: number;
  /** The most jobs that wait, and the most bytes of what they hold; default any number of bytes. */
  readonly maxJobs: number;
  readonly maxBytes?: number;
  /** Time that a thread may take until it is ready, and then for a job; default any. */
  readonly startTimeLimitMs?: number;
  readonly jobTimeLimitMs?: number;
  readonly errors: PoolErrors;
}

/** One job. */
export interface PoolJob<Input> {
  readonly input: Input;
  /** Memory of the input that goes without a copy. */
  readonly moved?: ArrayBuffer[];
  /** Bytes that it holds while it waits, about; default none. */
  readonly bytes?: number;
  readonly owner: JobOwner;
  /** Called when a thread takes it. */
  readonly begun?: () => void;
}

interface Waiting<Input, Output> extends PoolJob<Input> {
  readonly bytes: number;
  readonly resolve: (output: Output) => void;
  readonly reject: (error: Error) => void;
}

/** Principals whose turns are remembered, so that those who come and go do not fill the memory. */
const MOST_TURNS = 4096;

/**
 * Threads that do what would hold up the thread that serves.
 *
 * A thread has one job at a time, so one that takes too long, or takes the thread along, fails alone. Jobs
 * wait in a bounded queue; the next one is the principal's that has the fewest under way, then the one's that was last served
 * longest ago. When the queue is full, the principal with the most in it has its newest refused. Jobs whose owner has gone are not
 * begun.
 */
export class WorkerPool<Input, Output> {
  private readonly threads: PoolThread<Input, Output>[];
  private readonly waiting: Waiting<Input, Output>[] = [];
  /** When each principal of those that wait was last served. */
  private readonly turns = new Map<string, number>();
  private turn = 0;
  /** Listeners to the signals of owners whose jobs wait. */
  private readonly watched = new Map<AbortSignal, () => void>();
  private isClosed = false;

  constructor(private readonly options: WorkerPoolOptions) {
    this.threads = Array.from({ length: options.threads }, () => new PoolThread(options, () => this.dispatch()));
  }

  /** Starts a thread before a job needs it. @throws RocmForgeError where it cannot start */
  startEarly(): void {
    if (!this.isClosed && this.threads.every(({ isStarted }) => !isStarted)) this.threads[0]?.start(true);
  }

  /**
   * Runs a job.
   *
   * @throws RocmForgeError the job's own, or one of {@link PoolErrors}
   */
  run(job: PoolJob<Input>): Promise<Output> {
    return new Promise((resolve, reject) => {
      const { signal } = job.owner;
      if (this.isClosed) throw this.options.errors.closed();
      if (signal?.aborted) throw this.gone(signal);
      const waiting = { ...job, bytes: job.bytes ?? 0, resolve, reject };
      this.waiting.push(waiting);
      if (signal !== undefined) this.watch(signal);
      this.shed(job.owner.principal);
      this.dispatch();
    });
  }

  /** Ends the threads; what they were at, and what waits, is rejected. */
  async close(): Promise<void> {
    this.isClosed = true;
    while (this.waiting.length > 0) this.take(0)?.reject(this.options.errors.closed());
    await Promise.all(this.threads.map((thread) => thread.close()));
  }

  /** Drops the jobs of an owner that goes: one listener for all of them, as long as one waits. */
  private watch(signal: AbortSignal): void {
    if (this.watched.has(signal)) return;
    const leave = () => {
      this.watched.delete(signal);
      for (const job of this.waiting.filter(({ owner }) => owner.signal === signal)) {
        this.waiting.splice(this.waiting.indexOf(job), 1);
        job.reject(this.gone(signal));
      }
    };
    this.watched.set(signal, leave);
    signal.addEventListener('abort', leave, { once: true });
  }

  /** Takes a job out of the queue. */
  private take(at: number): Waiting<Input, Output> | undefined {
    const [job] = this.waiting.splice(at, 1);
    const signal = job?.owner.signal;
    const leave = signal && this.watched.get(signal);
    if (leave !== undefined && !this.waiting.some(({ owner }) => owner.signal === signal)) {
      this.watched.delete(signal as AbortSignal);
      signal?.removeEventListener('abort', leave);
    }
    return job;
  }

  private gone(signal: AbortSignal): Error {
    return this.options.errors.cancelled?.() ?? signal.reason;
  }

  /** Refuses what is too much, from the principal with the most: of equals the one that came last. */
  private shed(newest: string): void {
    const { maxJobs, maxBytes = Number.POSITIVE_INFINITY, errors } = this.options;
    while (this.waiting.length > maxJobs || sumOf(this.waiting) > maxBytes) {
      const held = new Map([[newest, 0]]);
      // The limit of jobs or of bytes, whichever is reached.
      for (const { owner, bytes } of this.waiting) {
        held.set(owner.principal, (held.get(owner.principal) ?? 0) + bytes / maxBytes + 1 / maxJobs);
      }
      const [greediest] = [...held].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
      const at = this.waiting.findLastIndex(({ owner }) => owner.principal === greediest);
      this.take(at)?.reject(errors.full(this.waiting.length));
    }
  }

  private dispatch(): void {
    while (!this.isClosed && this.waiting.length > 0) {
      const idle = this.threads.filter(({ isIdle }) => isIdle);
      const thread = idle.find(({ isStarted }) => isStarted) ?? idle[0];
      const next = thread && this.takeNext();
      if (thread === undefined || next === undefined) return;
      thread.run(next);
    }
    if (this.threads.every(({ isIdle }) => isIdle) || this.turns.size > MOST_TURNS) this.turns.clear();
  }

  private takeNext(): Waiting<Input, Output> | undefined {
    const { threadsOfOne = Number.POSITIVE_INFINITY } = this.options;
    const running = (principal: string) => this.threads.filter((thread) => thread.principal === principal).length;
    let best: Waiting<Input, Output> | undefined;
    let bestRank: readonly [number, number] = [threadsOfOne, 0];
    for (const job of this.waiting) {
      const { principal } = job.owner;
      const rank = [running(principal), this.turns.get(principal) ?? 0] as const;
      if ((rank[0] - bestRank[0] || rank[1] - bestRank[1]) >= 0) continue;
      best = job;
      bestRank = rank;
    }
    if (best === undefined) return undefined;
    this.take(this.waiting.indexOf(best));
    this.turns.set(best.owner.principal, ++this.turn);
    return best;
  }
}

/** One thread, started for its first job and again after its end. */
class PoolThread<Input, Output> {
  private worker: Worker | undefined;
  private isReady = false;
  private job: Waiting<Input, Output> | undefined;
  /** The job's, as the thread last told it. */
  private phase: string | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly options: WorkerPoolOptions,
    private readonly onIdle: () => void,
  ) {}

  get isIdle(): boolean {
    return this.job === undefined;
  }

  get isStarted(): boolean {
    return this.worker !== undefined;
  }

  /** Whose job is under way. */
  get principal(): string | undefined {
    return this.job?.owner.principal;
  }

  start(isEarly: boolean): Worker {
    if (this.worker !== undefined) return this.worker;
    const { name, file, data, heapMb, youngHeapMb } = this.options;
    if (!existsSync(file)) throw new RocmForgeError('INTERNAL', `${file} is missing; run "npm run build:ts"`);
    const worker = new Worker(file, {
      workerData: data(isEarly),
      name,
      resourceLimits: { maxOldGenerationSizeMb: heapMb, maxYoungGenerationSizeMb: youngHeapMb },
    });
    worker.on('message', (message: ThreadMessage<Output>) => this.take(worker, message));
    worker.on('error', (error) => this.lose(worker, `failed: ${error.message}`, error));
    worker.on('exit', (code) => this.lose(worker, `ended with code ${code}`));
    // A thread without a job does not keep the process alive.
    worker.unref();
    this.worker = worker;
    this.isReady = false;
    return worker;
  }

  run(job: Waiting<Input, Output>): void {
    const { check, jobTimeLimitMs, startTimeLimitMs } = this.options;
    this.job = job;
    this.phase = undefined;
    try {
      check?.();
      const worker = this.start(false);
      worker.ref();
      worker.postMessage(job.input, job.moved);
      this.limit(this.isReady ? jobTimeLimitMs : startTimeLimitMs);
    } catch (error) {
      this.end()?.reject(asRocmForgeError(error));
      return;
    }
    job.begun?.();
  }

  async close(): Promise<void> {
    const { worker } = this;
    this.worker = undefined;
    this.end()?.reject(this.options.errors.closed());
    await worker?.terminate();
  }

  private take(worker: Worker, message: ThreadMessage<Output>): void {
    if (worker !== this.worker) return;
    switch (message.event) {
      case 'ready':
        this.isReady = true;
        if (this.job !== undefined) this.limit(this.options.jobTimeLimitMs);
        break;
      case 'phase':
        this.phase = message.phase;
        break;
      case 'done':
        this.end()?.resolve(message.output);
        this.onIdle();
        break;
      case 'failed':
        this.end()?.reject(new RocmForgeError(message.reason, message.message, message.metadata));
        this.onIdle();
        break;
    }
  }

  /** A job that takes too long ends with the thread: a program that loops cannot be told to stop. */
  private limit(ms: number | undefined): void {
    clearTimeout(this.timer);
    if (ms === undefined) return;
    const due = performance.now() + ms;
    this.timer = setTimeout(() => {
      // A process that was stopped itself has not given the thread its time.
      if (performance.now() - due > ms / 2) this.limit(ms);
      else this.cancel(ms);
    }, ms);
    this.timer.unref();
  }

  private cancel(ms: number): void {
    const { worker, phase } = this;
    this.worker = undefined;
    this.end()?.reject(this.options.errors.late(`took longer than ${ms / 1000} s`, phase));
    void worker?.terminate();
    this.onIdle();
  }

  /** A dead thread is reported twice, by its error and by its exit; a new one may be at work by then. */
  private lose(worker: Worker, how: string, cause?: Error): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    this.end()?.reject(this.options.errors.lost(how, this.phase, cause));
    this.onIdle();
  }

  /** The job is over, one way or another. */
  private end(): Waiting<Input, Output> | undefined {
    clearTimeout(this.timer);
    const { job } = this;
    this.job = undefined;
    this.worker?.unref();
    return job;
  }
}

function sumOf(jobs: readonly { readonly bytes: number }[]): number {
  return jobs.reduce((sum, { bytes }) => sum + bytes, 0);
}
