import type { DetokenizerOptions } from '../../../lib/tokenizer/detokenizer.js';
import type { GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { TemplateSettings } from '../../chat/chat-template.js';
import type { ThreadMessage } from '../../threads/worker-pool.js';
import type { OpenedPrompts } from '../embedding.js';
import type { LimitFacts } from '../limits.js';
import type { PromptInput } from './prompt.js';

/** A generation's request whose prompt is encoded. */
export interface OpenedGeneration {
  /** Checked; of its input the texts may be left out, but a turn that is continued. */
  readonly request: GenerateStreamRequest;
  /** Which field the prompt came in. */
  readonly inputField: string;
  readonly promptIds: Uint32Array;
}

/** A request that came in another protocol, in ours. */
export interface TranslatedGeneration {
  /** Bytes of a GenerateStreamRequest. */
  readonly bytes: Uint8Array;
  readonly requestId: string;
  /** Further data that its response depends on; the protocol knows it. */
  readonly options: unknown;
}

/** Data that a thread is started with. */
export interface EncodeWorkerData {
  /** See `ModelFile`. */
  readonly modelPath: string;
  readonly openPaths: readonly string[];
  readonly facts: LimitFacts;
  /** In place of the model file's. */
  readonly template: TemplateSettings;
  /** Identity of the model, see `contentIdentity`: a thread must not encode with another vocabulary. */
  readonly identity: string;
}

/** Jobs of text threads: input and output by kind. */
export interface TextJobs {
  /** An input to its ids. */
  prompt: { readonly input: PromptInput; readonly output: Uint32Array };
  /** Ids to their text. */
  detokenize: {
    readonly input: { readonly ids: Uint32Array; readonly options: DetokenizerOptions };
    readonly output: string;
  };
  /** The bytes of a JSON request of a form about a text to those of its answer: the server's business. */
  textAnswer: {
    readonly input: { readonly form: string; readonly bytes: Uint8Array; readonly defaults: object };
    readonly output: { readonly bytes: Uint8Array; readonly ignored: readonly string[] };
  };
  /** The bytes of a large JSON request of a form to the bytes of a GenerateStreamRequest for each prompt, and how it is answered, with what it asks for where it does not say: the server's business. */
  json: {
    readonly input: { readonly form: string; readonly bytes: Uint8Array; readonly defaults: object };
    readonly output: {
      readonly messages: readonly Uint8Array[];
      readonly form: object;
      readonly ignored: readonly string[];
      readonly names: Readonly<Record<string, string>>;
    };
  };
  /** The bytes of a request for embeddings or scores, of a form, to its encoded inputs: the server's business. */
  prompts: {
    readonly input: { readonly form: string; readonly bytes: Uint8Array; readonly defaults: object };
    readonly output: OpenedPrompts;
  };
  /** The bytes of a large GenerateRequest or GenerateStreamRequest to what is made of them. */
  generation: { readonly input: Uint8Array; readonly output: OpenedGeneration };
  /** The bytes of a large request in another protocol, by its service's name, to one in ours. */
  translation: {
    readonly input: { readonly service: string; readonly bytes: Uint8Array };
    readonly output: TranslatedGeneration;
  };
  /** The bytes of a large request, in JSON or a message of the public API, to the name of the model that it asks for. */
  modelName: {
    readonly input: { readonly form: 'json' | 'message'; readonly bytes: Uint8Array };
    readonly output: string;
  };
  /** The bytes of a large TokenizeRequest to those of its response. */
  tokenize: { readonly input: Uint8Array; readonly output: Uint8Array };
  /** The bytes of a large DetokenizeRequest to those of its response. */
  detokenizeMessage: { readonly input: Uint8Array; readonly output: Uint8Array };
}

export type TextJobKind = keyof TextJobs;

/** One job, as it is sent to a thread. */
export type TextJob = {
  readonly [K in TextJobKind]: { readonly kind: K; readonly input: TextJobs[K]['input'] };
}[TextJobKind];

export type TextThreadMessage = ThreadMessage<TextJobs[TextJobKind]['output']>;
