import type { ChatMessage } from '../../../../shared/generated/rocmforge/v1/inference.js';

/** Stored responses that the Responses API reads: those that a request refers to. */
export interface StoredContext {
  /** The conversation of the response that `previous_response_id` names, with its output; without instructions. */
  readonly turns: readonly ChatMessage[];
  /** Output items by their ids, as JSON values. */
  readonly items: Readonly<Record<string, unknown>>;
}

/** Stored responses that a request of the Responses API refers to. */
export interface StoredReferences {
  readonly responseId: string | undefined;
  /** Ids of output items. */
  readonly itemIds: readonly string[];
}

/** Form of an answer of the Responses API: plain data, as {@link AnswerForm}. */
export interface ResponsesForm {
  /** Set where the request cannot be read before these are looked up; then nothing else holds. */
  readonly needs?: StoredReferences;
  /** JSON of the members of the response that repeat the request, without braces. */
  readonly echo: string;
  /** True if the reasoning is reported as its summary, not as its content. */
  readonly summarizes: boolean;
  /** True if reasoning items have `encrypted_content`. */
  readonly encrypts: boolean;
  /** Names of custom tools, whose calls have a text in place of arguments. */
  readonly customTools: readonly string[];
  /** The conversation without instructions, where the response is to be stored. */
  readonly turns?: readonly ChatMessage[];
}

/** The one argument of a function that stands for a custom tool. */
export const CUSTOM_INPUT = 'input';
