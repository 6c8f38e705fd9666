import { type DetokenizerOptions, detokenize } from '../../../lib/tokenizer/detokenizer.js';
import type { Tokenizer } from '../../../lib/tokenizer/tokenizer.js';
import { EventLoopBudget } from '../../../shared/event-loop-budget.js';
import type { TemplateSettings } from '../../chat/chat-template.js';
import { missingChatTemplate } from '../../chat/missing-chat-template.js';
import { type EmbeddingRequest, type OpenedPrompts, openEmbedding } from '../embedding.js';
import type { LimitFacts } from '../limits.js';
import type { ModelFile } from '../model-file.js';
import { encodeInput, type PromptInput } from './prompt.js';
import type { OpenedGeneration, TextJobs, TranslatedGeneration } from './text-jobs.js';
import { type CallContext, TextThreads } from './text-threads.js';

/**
 * Longest text, in UTF-16 units, that is encoded at once on the calling thread. The slowest input measured takes 0.6 ms
 * a thousand units cold (`bench/tokenizer.ts`), so this holds the event loop for at most about 5 ms.
 */
export const INLINE_CHARACTERS = 8192;
/** The most ids that are turned into text at once on the calling thread: 1.2 µs each. */
export const INLINE_IDS = 4096;

/** Time that all texts together may block the event loop at once. */
const INLINE_MS = 5;

const THREADS = 2;
const JOB_TIME_LIMIT_MS = 10_000;
const MAX_JOBS = 256;
const MAX_JOB_BYTES = 32 << 20;
/** Bytes of a job in addition to its text. */
const JOB_BYTES = 4096;

export interface EncodeServiceOptions {
  /** The GGUF file; each thread reads its vocabulary from there. */
  readonly modelFile: Pick<ModelFile, 'path' | 'openPaths' | 'identity' | 'check' | 'checkStamp'>;
  readonly tokenizer: Tokenizer;
  readonly hasChatTemplate: boolean;
  readonly facts: LimitFacts;
  readonly template?: TemplateSettings | undefined;
  /** Threads, each with a tokenizer of its own (about 0.1 GB for 128,000 tokens), started when they are needed; default 2. */
  readonly threads?: number;
  /** Time that a text, or a chat template, may take in its thread; default 10 s. */
  readonly jobTimeLimitMs?: number;
  readonly inlineCharacters?: number;
  /** Budget for everything that is done at once on this thread; default: one of its own. */
  readonly budget?: EventLoopBudget;
  /** The most jobs that wait for a thread; default 256. */
  readonly maxJobs?: number;
  /** The program of the threads, compiled: the server's, whose messages it decodes. */
  readonly workerFile: string;
}

/** Budget of a serving thread, shared by all services there. */
export const inlineBudget = (): EventLoopBudget => new EventLoopBudget(INLINE_MS);

/**
 * Encodes and decodes without holding up the event loop: what is certainly cheap at once, long texts and large messages in
 * threads. Chat templates are programs of the model file's author and always run in a thread, with a time limit. Answers
 * are the same either way.
 */
export class EncodeService {
  private readonly threads: TextThreads;
  private readonly inlineCharacters: number;
  /** For all that is decoded and encoded on this thread. */
  readonly budget: EventLoopBudget;

  constructor(private readonly options: EncodeServiceOptions) {
    const { modelFile, facts, template = {} } = options;
    this.budget = options.budget ?? inlineBudget();
    this.inlineCharacters = options.inlineCharacters ?? INLINE_CHARACTERS;
    this.threads = new TextThreads({
      file: options.workerFile,
      modelFile,
      facts,
      template,
      threads: options.threads ?? THREADS,
      jobTimeLimitMs: options.jobTimeLimitMs ?? JOB_TIME_LIMIT_MS,
      maxJobs: options.maxJobs ?? MAX_JOBS,
      maxBytes: MAX_JOB_BYTES,
    });
  }

  /** Starts a thread ahead where conversations will need one. */
  warm(): void {
    if (this.options.hasChatTemplate) this.threads.warm();
  }

  /** As {@link encodeInput}, after the checks of limits. Rejects with the same errors, or as {@link TextThreads.run}. */
  async encode(input: PromptInput | undefined, caller: CallContext): Promise<Uint32Array> {
    const { tokenizer, facts } = this.options;
    if (input?.$case === 'chat') {
      this.checkChatTemplate();
      return this.threads.run('prompt', input, JOB_BYTES + charactersOf(input), caller);
    }
    const length = input === undefined ? 0 : textLength(input);
    if (input !== undefined && (length > this.inlineCharacters || (length > 0 && this.budget.isSpent))) {
      return this.threads.run('prompt', input, JOB_BYTES + 2 * length, caller);
    }
    const encodeChat = (): never => {
      throw new Error('conversations are encoded in threads');
    };
    const encoder = { tokenizer, vocabularySize: facts.vocabularySize, encodeChat };
    return this.budget.spend(() => encodeInput(input, encoder));
  }

  private checkChatTemplate(): void {
    if (this.options.hasChatTemplate) return;
    throw missingChatTemplate();
  }

  /** The text of ids below the vocabulary's size. */
  async detokenize(ids: Uint32Array, options: DetokenizerOptions, caller: CallContext): Promise<string> {
    if (ids.length <= INLINE_IDS && !this.budget.isSpent) {
      return this.budget.spend(() => detokenize(this.options.tokenizer, ids, options));
    }
    return this.threads.run('detokenize', { ids, options }, JOB_BYTES + ids.byteLength, caller);
  }

  /** Decodes, checks and encodes a GenerateRequest or GenerateStreamRequest too large to be decoded here. */
  openGeneration(bytes: Uint8Array, caller: CallContext): Promise<OpenedGeneration> {
    return this.threads.run('generation', bytes, JOB_BYTES + bytes.length, caller);
  }

  /** Reads a large JSON request of a form. */
  readJson(
    form: string,
    bytes: Uint8Array,
    defaults: object,
    caller: CallContext,
  ): Promise<TextJobs['json']['output']> {
    return this.threads.run('json', { form, bytes, defaults }, JOB_BYTES + bytes.length, caller);
  }

  /** Answers a JSON request of a form about a text, see {@link TextJobs}. */
  answerText(
    form: string,
    bytes: Uint8Array,
    defaults: object,
    caller: CallContext,
  ): Promise<TextJobs['textAnswer']['output']> {
    return this.threads.run('textAnswer', { form, bytes, defaults }, JOB_BYTES + bytes.length, caller);
  }

  /** Reads and encodes the inputs of a request for embeddings or scores, of a form. */
  openPrompts(form: string, bytes: Uint8Array, defaults: object, caller: CallContext): Promise<OpenedPrompts> {
    return this.threads.run('prompts', { form, bytes, defaults }, JOB_BYTES + bytes.length, caller);
  }

  /** The same of a small request of the public API. */
  embeddingPrompts(request: EmbeddingRequest): OpenedPrompts {
    const { tokenizer, facts } = this.options;
    const encodeChat = (): never => {
      throw new Error('conversations are not embedded');
    };
    const encoder = { tokenizer, vocabularySize: facts.vocabularySize, encodeChat };
    return this.budget.spend(() => openEmbedding(request, facts, encoder));
  }

  /** Turns a large request in another protocol, by its service's name, into one in ours. */
  translate(service: string, bytes: Uint8Array, caller: CallContext): Promise<TranslatedGeneration> {
    return this.threads.run('translation', { service, bytes }, JOB_BYTES + bytes.length, caller);
  }

  /** The model that a large request asks for; empty where it names none. */
  modelName(form: 'json' | 'message', bytes: Uint8Array, caller: CallContext): Promise<string> {
    return this.threads.run('modelName', { form, bytes }, JOB_BYTES + bytes.length, caller);
  }

  /** Answers a large TokenizeRequest: bytes to bytes. */
  answerTokenize(bytes: Uint8Array, caller: CallContext): Promise<Uint8Array> {
    return this.threads.run('tokenize', bytes, JOB_BYTES + bytes.length, caller);
  }

  /** Answers a large DetokenizeRequest: bytes to bytes. */
  answerDetokenize(bytes: Uint8Array, caller: CallContext): Promise<Uint8Array> {
    return this.threads.run('detokenizeMessage', bytes, JOB_BYTES + bytes.length, caller);
  }

  /** Ends the threads; what they were at is rejected with `SHUTTING_DOWN`. */
  async close(): Promise<void> {
    await this.threads.close();
  }
}

/** Characters that are encoded. */
function textLength(input: PromptInput): number {
  if (input.$case === 'text') return input.value.text.length;
  if (input.$case !== 'mixed') return 0;
  return input.value.parts.reduce((sum, { part }) => sum + (part?.$case === 'text' ? part.value.text.length : 0), 0);
}

/** Bytes of a conversation's texts, about. */
function charactersOf({ value }: Extract<PromptInput, { $case: 'chat' }>): number {
  const { messages, templateVariablesJson } = value;
  const texts = messages.reduce((sum, { content, reasoning }) => sum + content.length + reasoning.length, 0);
  return 2 * (texts + templateVariablesJson.length);
}
