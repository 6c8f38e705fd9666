import { existsSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { RocmForgeError } from '../../../shared/errors.js';
import type { TemplateSettings } from '../../chat/chat-template.js';
import type { Caller } from '../context.js';
import type { LimitFacts } from '../limits.js';
import type { ModelFile } from '../model-file.js';
import type { EncodeWorkerData, TextJob, TextJobKind, TextJobs, TextThreadMessage } from './text-jobs.js';

/** Owner of a job. */
export interface CallContext extends Caller {
  /** Aborted when the answer is not wanted any more. */
  readonly signal: AbortSignal;
}

export interface TextThreadsOptions {
  /** Their program, compiled. */
  readonly file: string;
  readonly modelFile: Pick<ModelFile, 'path' | 'openPaths' | 'identity' | 'check' | 'checkStamp'>;
  readonly facts: LimitFacts;
  readonly template: TemplateSettings;
  readonly threads: number;
  /** Time that a job may take once a thread has begun it. */
  readonly jobTimeLimitMs: number;
  /** The most jobs that wait, and the most bytes of what they hold. */
  readonly maxJobs: number;
  readonly maxBytes: number;
}

/** Time that a thread may take to read its vocabulary. */
const START_TIME_LIMIT_MS = 120_000;
const RETRY_MS = 1000;
/** Behind the start of an executor, which needs the processors then. */
const WARM_AFTER_MS = 2000;
/** Principals whose turns are remembered, so that those who come and go do not fill the memory. */
const MOST_TURNS = 4096;
/** A thread's heap, beyond which it ends, and not the process: a template can double a string as often as it likes. */
const MAX_HEAP_MB = 1024;
/** Part of the heap for V8's young generation: more is not given back between jobs. */
const YOUNG_HEAP_MB = 16;

interface Waiting {
  readonly job: TextJob;
  readonly bytes: number;
  readonly caller: CallContext;
  readonly resolve: (output: TextJobs[TextJobKind]['output']) => void;
  readonly reject: (error: RocmForgeError) => void;
}

/**
 * Threads that do to texts what would hold up the thread that serves.
 *
 * A thread has one job at a time, so one that takes too long, or takes the thread along, is nobody else's loss. Jobs
 * wait in a bounded queue; the next one is the principal's that has the fewest under way, then the one's that was last served
 * longest ago. When the queue is full, the principal with the most in it has its newest refused. Jobs that nobody waits for any
 * more are not begun.
 */
export class TextThreads {
  private readonly threads: TextThread[];
  private waiting: Waiting[] = [];
  /** When each principal of those that wait was last served. */
  private readonly turns = new Map<string, number>();
  private turn = 0;
  private isClosed = false;
  private warming: NodeJS.Timeout | undefined;

  constructor(private readonly options: TextThreadsOptions) {
    this.threads = Array.from({ length: options.threads }, () => new TextThread(options, () => this.dispatch()));
  }

  /** Starts the first thread soon, before a request needs it. */
  warm(): void {
    this.warming = setTimeout(() => {
      try {
        this.threads[0]?.start();
      } catch {
        // The first job that needs it is rejected with the reason.
      }
    }, WARM_AFTER_MS).unref();
  }

  /**
   * Runs a job.
   *
   * @param bytes that it holds while it waits, about
   * @throws RocmForgeError the job's own; `QUEUE_FULL`; `CHAT_TEMPLATE_FAILED` or `TEXT_TOO_SLOW` after the time limit;
   *   `SHUTTING_DOWN`; `MODEL_FILE_CHANGED` when a thread would read, or has read, another vocabulary
   */
  run<K extends TextJobKind>(
    kind: K,
    input: TextJobs[K]['input'],
    bytes: number,
    caller: CallContext,
  ): Promise<TextJobs[K]['output']> {
    return new Promise((resolve, reject) => {
      if (this.isClosed) throw closed();
      const job = { kind, input } as TextJob;
      this.waiting.push({ job, bytes, caller, resolve: resolve as Waiting['resolve'], reject });
      this.shed();
      this.dispatch();
    });
  }

  /** Ends the threads; what they were at is rejected with `SHUTTING_DOWN`. */
  async close(): Promise<void> {
    this.isClosed = true;
    clearTimeout(this.warming);
    for (const { reject } of this.waiting.splice(0)) reject(closed());
    await Promise.all(this.threads.map((thread) => thread.close()));
  }

  /** Refuses what is too much, from whoever has the most. */
  private shed(): void {
    const { maxJobs, maxBytes } = this.options;
    while (this.waiting.length > maxJobs || sumOf(this.waiting) > maxBytes) {
      this.waiting = this.waiting.filter((job) => !this.isGone(job));
      if (this.waiting.length <= maxJobs && sumOf(this.waiting) <= maxBytes) return;
      const held = new Map<string, number>();
      // The limit of jobs or of bytes, whichever is reached.
      const weigh = ({ bytes }: Waiting) => bytes / maxBytes + 1 / maxJobs;
      for (const job of this.waiting) {
        const { principal } = job.caller;
        held.set(principal, (held.get(principal) ?? 0) + weigh(job));
      }
      const [greediest] = [...held].reduce((most, entry) => (entry[1] > most[1] ? entry : most));
      const at = this.waiting.findLastIndex(({ caller }) => caller.principal === greediest);
      const [refused] = this.waiting.splice(at, 1);
      refused?.reject(
        new RocmForgeError('QUEUE_FULL', `${this.waiting.length} texts wait already to be encoded or decoded`, {
          retry_delay_ms: String(RETRY_MS),
        }),
      );
    }
  }

  private dispatch(): void {
    while (this.waiting.length > 0) {
      const thread = this.threads.find(({ isIdle }) => isIdle);
      if (thread === undefined) return;
      const next = this.takeNext();
      if (next === undefined) return;
      thread.run(next);
    }
    if (this.threads.every(({ isIdle }) => isIdle) || this.turns.size > MOST_TURNS) this.turns.clear();
  }

  private takeNext(): Waiting | undefined {
    this.waiting = this.waiting.filter((job) => !this.isGone(job));
    const running = (principal: string) => this.threads.filter((thread) => thread.principal === principal).length;
    let best: Waiting | undefined;
    let bestRank: readonly [number, number] = [0, 0];
    for (const job of this.waiting) {
      const { principal } = job.caller;
      const rank = [running(principal), this.turns.get(principal) ?? 0] as const;
      if (best !== undefined && (rank[0] - bestRank[0] || rank[1] - bestRank[1]) >= 0) continue;
      best = job;
      bestRank = rank;
    }
    if (best === undefined) return undefined;
    this.waiting.splice(this.waiting.indexOf(best), 1);
    this.turns.set(best.caller.principal, ++this.turn);
    return best;
  }

  /** Rejects a job that nobody waits for. */
  private isGone({ caller, reject }: Waiting): boolean {
    if (caller.signal.aborted) reject(new RocmForgeError('INTERNAL', 'the call was cancelled'));
    return caller.signal.aborted;
  }
}

/** One thread, started for its first job and again after its end. */
class TextThread {
  private worker: Worker | undefined;
  private isReady = false;
  private job: Waiting | undefined;
  private isInTemplate = false;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly options: TextThreadsOptions,
    private readonly onIdle: () => void,
  ) {}

  get isIdle(): boolean {
    return this.job === undefined;
  }

  /** Whose job is under way. */
  get principal(): string | undefined {
    return this.job?.caller.principal;
  }

  start(): Worker {
    if (this.worker !== undefined) return this.worker;
    const { file, modelFile, facts, template } = this.options;
    if (!existsSync(file)) throw new RocmForgeError('INTERNAL', `${file} is missing; run "npm run build:ts"`);
    modelFile.check();
    const { path: modelPath, openPaths, identity } = modelFile;
    const data: EncodeWorkerData = { modelPath, openPaths, identity, facts, template };
    const worker = new Worker(file, {
      workerData: data,
      name: 'encode',
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB, maxYoungGenerationSizeMb: YOUNG_HEAP_MB },
    });
    worker.on('message', (message: TextThreadMessage) => this.hear(worker, message));
    worker.on('error', (error) => this.lose(worker, `failed: ${error.message}`, error));
    worker.on('exit', (code) => this.lose(worker, `ended with code ${code}`));
    // A thread without a job does not keep the process alive.
    worker.unref();
    this.worker = worker;
    this.isReady = false;
    return worker;
  }

  run(job: Waiting): void {
    this.job = job;
    this.isInTemplate = false;
    try {
      // Cheap, and the vocabulary that a thread has read is not that of a file which was written to since.
      this.options.modelFile.checkStamp();
      const worker = this.start();
      worker.ref();
      worker.postMessage(job.job, movable(job.job.input));
      this.limit(this.isReady ? this.options.jobTimeLimitMs : START_TIME_LIMIT_MS);
    } catch (error) {
      this.end()?.reject(error as RocmForgeError);
    }
  }

  async close(): Promise<void> {
    const { worker } = this;
    this.worker = undefined;
    this.end()?.reject(closed());
    await worker?.terminate();
  }

  private hear(worker: Worker, message: TextThreadMessage): void {
    if (worker !== this.worker) return;
    switch (message.event) {
      case 'ready':
        this.isReady = true;
        if (this.job !== undefined) this.limit(this.options.jobTimeLimitMs);
        break;
      case 'template':
        this.isInTemplate = true;
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

  /** A job that takes too long ends with the thread: a template that loops cannot be told to stop. */
  private limit(ms: number): void {
    clearTimeout(this.timer);
    const due = performance.now() + ms;
    this.timer = setTimeout(() => {
      // A process that was stopped itself has not given the thread its time.
      if (performance.now() - due > ms / 2) this.limit(ms);
      else this.cancel(ms);
    }, ms);
    this.timer.unref();
  }

  private cancel(ms: number): void {
    const { worker } = this;
    this.worker = undefined;
    const took = `took longer than ${ms / 1000} s`;
    this.end()?.reject(
      this.isInTemplate
        ? new RocmForgeError('CHAT_TEMPLATE_FAILED', `the chat template failed: it ${took}`)
        : new RocmForgeError('TEXT_TOO_SLOW', `encoding or decoding the text ${took}`),
    );
    void worker?.terminate();
    this.onIdle();
  }

  /** A dead thread is reported twice, by its error and by its exit; a new one may be at work by then. */
  private lose(worker: Worker, how: string, cause?: Error): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    const reason = this.isInTemplate ? 'CHAT_TEMPLATE_FAILED' : 'INTERNAL';
    this.end()?.reject(new RocmForgeError(reason, `the tokenizer thread ${how}`, {}, { cause }));
    this.onIdle();
  }

  /** The job is over, one way or another. */
  private end(): Waiting | undefined {
    clearTimeout(this.timer);
    const { job } = this;
    this.job = undefined;
    this.worker?.unref();
    return job;
  }
}

/** A large message has its memory to itself and goes without a copy; nobody reads it here any more. */
function movable(input: TextJob['input']): ArrayBuffer[] {
  const isAlone = input instanceof Uint8Array && input.byteLength > Buffer.poolSize;
  return isAlone ? [input.buffer as ArrayBuffer] : [];
}

const closed = () => new RocmForgeError('SHUTTING_DOWN', 'the tokenizer is shutting down');

function sumOf(jobs: readonly Waiting[]): number {
  return jobs.reduce((sum, { bytes }) => sum + bytes, 0);
}
