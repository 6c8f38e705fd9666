import { RocmForgeError } from '../../../shared/errors.js';
import type { TemplateSettings } from '../../chat/chat-template.js';
import { WorkerPool } from '../../threads/worker-pool.js';
import type { Caller } from '../context.js';
import type { LimitFacts } from '../limits.js';
import type { ModelFile } from '../model-file.js';
import type { EncodeWorkerData, TextJob, TextJobKind, TextJobs } from './text-jobs.js';

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
/** A template can double a string as often as it likes. */
const MAX_HEAP_MB = 1024;
const YOUNG_HEAP_MB = 16;

/** Threads with a tokenizer and the chat template each, which do to texts what would hold up the thread that serves. */
export class TextThreads {
  private readonly pool: WorkerPool<TextJob, TextJobs[TextJobKind]['output']>;
  private warming: NodeJS.Timeout | undefined;

  constructor({ file, modelFile, facts, template, ...limits }: TextThreadsOptions) {
    this.pool = new WorkerPool({
      name: 'encode',
      file,
      data: () => {
        modelFile.check();
        const { path: modelPath, openPaths, identity } = modelFile;
        return { modelPath, openPaths, identity, facts, template } satisfies EncodeWorkerData;
      },
      // Cheap, and the vocabulary that a thread has read is not that of a file which was written to since.
      check: () => modelFile.checkStamp(),
      heapMb: MAX_HEAP_MB,
      youngHeapMb: YOUNG_HEAP_MB,
      startTimeLimitMs: START_TIME_LIMIT_MS,
      ...limits,
      errors: {
        full: (waiting) => {
          const sentence = `${waiting} texts wait already to be encoded or decoded`;
          return new RocmForgeError('QUEUE_FULL', sentence, { retry_delay_ms: String(RETRY_MS) });
        },
        closed: () => new RocmForgeError('SHUTTING_DOWN', 'the tokenizer is shutting down'),
        cancelled: () => new RocmForgeError('INTERNAL', 'the call was cancelled'),
        lost: (how, phase, cause) => {
          const reason = phase === 'template' ? 'CHAT_TEMPLATE_FAILED' : 'INTERNAL';
          return new RocmForgeError(reason, `the tokenizer thread ${how}`, {}, { cause });
        },
        late: (took, phase) =>
          phase === 'template'
            ? new RocmForgeError('CHAT_TEMPLATE_FAILED', `the chat template failed: it ${took}`)
            : new RocmForgeError('TEXT_TOO_SLOW', `encoding or decoding the text ${took}`),
      },
    });
  }

  /** Starts the first thread soon, before a request needs it. */
  warm(): void {
    this.warming = setTimeout(() => {
      try {
        this.pool.startEarly();
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
    owner: CallContext,
  ): Promise<TextJobs[K]['output']> {
    const job = { kind, input } as TextJob;
    return this.pool.run({ input: job, moved: movable(input), bytes, owner });
  }

  /** Ends the threads; what they were at is rejected with `SHUTTING_DOWN`. */
  close(): Promise<void> {
    clearTimeout(this.warming);
    return this.pool.close();
  }
}

/** A large message has its memory to itself and goes without a copy; nobody reads it here any more. */
function movable(input: TextJob['input']): ArrayBuffer[] {
  const isAlone = input instanceof Uint8Array && input.byteLength > Buffer.poolSize;
  return isAlone ? [input.buffer as ArrayBuffer] : [];
}
