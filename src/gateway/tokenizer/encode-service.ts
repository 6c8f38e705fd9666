import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { RocmForgeError } from '../../shared/errors.js';
import type { ChatTemplate, Conversation } from '../chat/chat-template.js';
import type { ModelFile } from '../model-file.js';
import type { EncodeAnswer, EncodeJob, EncodeWorkerData } from './encode-worker.js';
import type { PromptOptions, Tokenizer } from './tokenizer.js';

/**
 * Longest text, in UTF-16 units, that is encoded at once on the calling thread. The slowest input measured takes 0.6 ms
 * a thousand units cold (`bench/tokenizer.ts`), so this holds the event loop for at most about 5 ms.
 */
export const INLINE_LIMIT = 8192;

export interface EncodeServiceOptions {
  /** The GGUF file; each thread reads its vocabulary from there. */
  readonly modelFile: Pick<ModelFile, 'openPath' | 'identity' | 'check' | 'checkStamp'>;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate: ChatTemplate;
  /** Threads for long prompts, each with a tokenizer of its own (about 0.1 GB for 128,000 tokens); default 1. */
  readonly threads?: number;
  readonly inlineLimit?: number;
  /** The compiled `encode-worker.js`; default: the one beside this file, or under `dist/` when this file is a source. */
  readonly workerFile?: string;
}

/**
 * Encodes prompts without holding up the event loop: short ones at once, long ones in threads that start when the first
 * long prompt comes. Answers are the same either way.
 */
export class EncodeService {
  private readonly threads: EncodeThread[];
  private readonly inlineLimit: number;

  constructor(private readonly options: EncodeServiceOptions) {
    this.inlineLimit = options.inlineLimit ?? INLINE_LIMIT;
    const workerFile = options.workerFile ?? defaultWorkerFile();
    this.threads = Array.from({ length: options.threads ?? 1 }, () => new EncodeThread(workerFile, options.modelFile));
  }

  /**
   * As {@link Tokenizer.encodePrompt}. Rejects with the same errors, with `SHUTTING_DOWN` after {@link close}, and with
   * `MODEL_FILE_CHANGED` when a thread would read another vocabulary.
   */
  async encodePrompt(text: string, options: PromptOptions): Promise<Int32Array> {
    if (text.length <= this.inlineLimit) return this.options.tokenizer.encodePrompt(text, options);
    return this.leastBusy().run({ text, options });
  }

  /** Renders and encodes a conversation. Rejects with the errors of {@link ChatTemplate.render}. */
  async encodeChat(conversation: Conversation): Promise<Int32Array> {
    if (lengthOf(conversation) <= this.inlineLimit) {
      return this.options.chatTemplate.encode(conversation, this.options.tokenizer);
    }
    return this.leastBusy().run({ conversation });
  }

  /** Ends the threads; what they were at is rejected with `SHUTTING_DOWN`. */
  async close(): Promise<void> {
    await Promise.all(this.threads.map((thread) => thread.close()));
  }

  private leastBusy(): EncodeThread {
    return this.threads.reduce((best, thread) => (thread.pending < best.pending ? thread : best));
  }
}

type Job = EncodeJob extends infer J ? (J extends unknown ? Omit<J, 'id'> : never) : never;

interface Waiting {
  readonly resolve: (ids: Int32Array) => void;
  readonly reject: (error: RocmForgeError) => void;
}

/** One worker thread and the jobs it has not answered. A thread that dies fails its jobs and is replaced by the next. */
class EncodeThread {
  private worker: Worker | undefined;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 0;
  private isClosed = false;

  constructor(
    private readonly file: string,
    private readonly modelFile: EncodeServiceOptions['modelFile'],
  ) {}

  get pending(): number {
    return this.waiting.size;
  }

  run(job: Job): Promise<Int32Array> {
    return new Promise((resolve, reject) => {
      if (this.isClosed) throw new RocmForgeError('SHUTTING_DOWN', 'the tokenizer is shutting down');
      this.modelFile.checkStamp();
      const worker = this.start();
      const id = this.nextId++;
      this.waiting.set(id, { resolve, reject });
      worker.ref();
      worker.postMessage({ id, ...job });
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.failAll(new RocmForgeError('SHUTTING_DOWN', 'the tokenizer is shutting down'));
    await this.worker?.terminate();
  }

  private start(): Worker {
    if (this.worker !== undefined) return this.worker;
    if (!existsSync(this.file)) {
      throw new RocmForgeError('INTERNAL', `${this.file} is missing; run "npm run build:ts"`);
    }
    this.modelFile.check();
    const data: EncodeWorkerData = { modelPath: this.modelFile.openPath, identity: this.modelFile.identity };
    const worker = new Worker(this.file, { workerData: data, name: 'encode' });
    worker.on('message', (answer: EncodeAnswer) => this.answer(answer));
    worker.on('error', (error) => this.lose(worker, `failed: ${error.message}`, error));
    worker.on('exit', (code) => this.lose(worker, `ended with code ${code}`));
    this.worker = worker;
    return worker;
  }

  /** A dead thread is reported twice, by its error and by its exit; a new one may be at work by then. */
  private lose(worker: Worker, how: string, cause?: Error): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    this.failAll(new RocmForgeError('INTERNAL', `the tokenizer thread ${how}`, {}, { cause }));
  }

  private answer(answer: EncodeAnswer): void {
    const waiting = this.waiting.get(answer.id);
    this.waiting.delete(answer.id);
    // An idle thread does not keep the process alive.
    if (this.waiting.size === 0) this.worker?.unref();
    if (waiting === undefined) return;
    if ('ids' in answer) waiting.resolve(answer.ids);
    else waiting.reject(new RocmForgeError(answer.reason, answer.message, answer.metadata));
  }

  private failAll(error: RocmForgeError): void {
    const failed = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of failed) reject(error);
  }
}

/** Threads run compiled JavaScript only; from a source file (vitest) that is the built twin under `dist/`. */
function defaultWorkerFile(): string {
  const directory = fileURLToPath(new URL('.', import.meta.url));
  const built = import.meta.url.endsWith('.ts') ? directory.replace(/\/src\/gateway\//, '/dist/gateway/') : directory;
  return `${built}encode-worker.js`;
}

/** UTF-16 units that a conversation has at least, without rendering it. */
function lengthOf(conversation: Conversation): number {
  let length = 0;
  for (const { content, toolCalls = [] } of conversation.messages) {
    length += content.length;
    for (const call of toolCalls) length += call.argumentsJson.length;
  }
  for (const tool of conversation.tools ?? []) length += tool.description.length + tool.parametersJson.length;
  return length;
}
