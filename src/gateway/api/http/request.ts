import type { FillInTokens } from '../../../lib/tokenizer/fill-in-tokens.js';
import type { RocmForgeError } from '../../../shared/errors.js';
import type {
  GenerateResponse,
  GenerateStreamRequest,
  GenerateStreamResponse,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress, Recovery } from '../../request/generation.js';
import type { FieldNames } from './field-names.js';
import type { OllamaForm } from './ollama/ollama-form.js';
import type { ResponsesForm, StoredContext } from './openai/responses-form.js';

/** Form of a generation's answer, as JSON: made from plain facts, so that a request may be read in another thread. */
export interface AnswerForm {
  readonly kind: AnswerKind;
  /** True if it is streamed as server-sent events. */
  readonly isStream: boolean;
  /** True if a stream ends with the counts of its tokens. */
  readonly includeUsage: boolean;
  /** True if each event of a stream has the counts of tokens so far. */
  readonly continuousUsage?: boolean;
  /** True if the answer has the reasoning; default true. */
  readonly includeReasoning?: boolean;
  /** True if ids of tokens are included, if the form leaves that open. */
  readonly includeTokens: boolean;
  /** Likeliest tokens that are told at each place; absent: no log probabilities at all. */
  readonly logprobs: number | undefined;
  /** True if the prompt's text comes first. */
  readonly echo: boolean;
  /** True if each event of a stream includes its timings so far. */
  readonly timingsPerToken: boolean;
  /** True if a stream includes the progress of the prompt. */
  readonly returnProgress: boolean;
  /** True if a stream reports the loss of its executor and the first token afterwards; default false. */
  readonly returnRecovery?: boolean;
  /** Requested and accepted parameters, in llama.cpp's form. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** Form of an answer of the Responses API; absent for all others. */
  readonly responses?: ResponsesForm;
  /** Form of a response of Ollama's API; absent for all others. */
  readonly ollama?: OllamaForm;
  /** The fields of the answer that are wanted, by their paths; absent: all. */
  readonly responseFields?: readonly string[];
}

export type AnswerKind =
  | 'chat'
  | 'completion'
  | 'llama'
  | 'infill'
  | 'messages'
  | 'responses'
  | 'ollamaChat'
  | 'ollamaGenerate';

/** Defaults of requests. */
export interface FormDefaults {
  /** True if a chat's answer includes the prompt as it was rendered. */
  readonly verbose: boolean;
  /** True if unknown fields are refused; default: they are ignored and reported. */
  readonly strictFields?: boolean | undefined;
  /** The model's tokens to fill in a middle; absent: it has none. */
  readonly fillIn?: FillInTokens | undefined;
  /** True if the model has a chat template. */
  readonly hasChatTemplate?: boolean | undefined;
  /** Stored responses that the request refers to; absent: nothing was looked up yet. */
  readonly stored?: StoredContext | undefined;
}

/** A generation that a JSON request asks for. */
export interface JsonGeneration {
  /** One for each prompt. */
  readonly messages: readonly GenerateStreamRequest[];
  readonly form: AnswerForm;
}

/** The same with what of the request had no effect. */
export interface ReadGeneration extends JsonGeneration {
  /** See {@link FieldPolicy.ignored}. */
  readonly ignored: readonly string[];
  /** The request's names of fields. */
  readonly names: FieldNames;
}

/** Facts that an answer is written with, in addition to its messages. */
export interface AnswerFacts {
  readonly model: string;
  readonly contextLength: number;
  /** Origin of answers, as OpenAI's `system_fingerprint` has it: the same one, the same seed, the same text. */
  readonly fingerprint: string;
  /** Tokens that end a text. */
  readonly endIds: ReadonlySet<number>;
  /** The text of one token, and its bytes. */
  tokenText(id: number): string;
  tokenBytes(id: number): Uint8Array;
}

/** A server-sent event that has a name. */
export interface NamedEvent {
  readonly name: string;
  /** The text behind `data: `. */
  readonly data: string;
}

/** A stream of lines of JSON. */
export interface LineStream {
  readonly type: string;
  /** A line without content, for a stream that waits. */
  waiting(): string;
}

/** Writes one generation's answer in a form. */
export interface ResponseWriter {
  /** The name of the event that tells an error; absent: it has none. */
  readonly errorEvent?: string;
  /** The events of a stream that fails after it has begun; absent: one, of the name above. */
  failure?(error: RocmForgeError): readonly (string | NamedEvent)[];
  /** Streams as lines of JSON; absent: as server-sent events. */
  readonly lines?: LineStream;
  /** Number of prompt tokens, before anything of a stream. */
  prompt?(tokens: number): void;
  /** The first token of a whole answer has come. */
  begin(): void;
  /** The whole answer. @param responses one for each prompt */
  unaryBody(responses: readonly GenerateResponse[]): unknown;
  /** The events of how far the prompt has come, before all messages. */
  progress?(requestId: string, progress: PromptProgress): readonly (string | NamedEvent)[];
  /** The events of the loss of the executor, or of the first token afterwards. */
  recovery?(requestId: string, event: Recovery): readonly (string | NamedEvent)[];
  /** The events of a message of the stream; of one without a name the text behind `data: `. */
  events(message: GenerateStreamResponse): readonly (string | NamedEvent)[];
  /** The events behind the last message. */
  lastEvents(): readonly (string | NamedEvent)[];
}

/** Error format of a protocol: the status and the body. */
export type ErrorForm = (error: RocmForgeError) => { readonly status: number; readonly body: unknown };
