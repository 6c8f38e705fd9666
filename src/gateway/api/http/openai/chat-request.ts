import { isJsonObject, jsonText } from '../../../../shared/exact-json.js';
import type { ChatInput, ChatMessage, ToolCall } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { Fields } from '../fields.js';
import type { FormDefaults, JsonGeneration } from '../request.js';
import { maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import { streamOf } from './stream-fields.js';
import { toolChoiceOf, toolsOf } from './tool-fields.js';

/**
 * Reads a request of OpenAI's `POST /v1/chat/completions`, with the fields that vLLM and llama.cpp added.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function chatRequest(body: unknown, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body);
  const isAsked = fields.boolean('logprobs') ?? false;
  const top = fields.integer('top_logprobs', 0, 20);
  if (top !== undefined && top > 0 && !isAsked) fields.refuse('top_logprobs', 'asks for logprobs, which is not true');
  const logprobs = isAsked ? (top ?? 0) : undefined;
  const message = messageOf(fields, {
    input: {
      $case: 'chat',
      value: {
        ...conversationOf(fields),
        toolChoice: toolChoiceOf(fields),
        parallelToolCalls: fields.boolean('parallel_tool_calls'),
      },
    },
    sampling: samplingOf(fields),
    stop: stopOf(fields, maxTokensOf(fields, 'max_completion_tokens', 'max_tokens', 'n_predict')),
    output: { logprobs, promptText: fields.boolean('verbose') ?? defaults.verbose },
  });
  fields.mustBe('function_call', 'none');
  fields.mustBe('store', false);
  fields.mustBe('service_tier', 'auto', 'default');
  textAlone(fields);
  // What only sorts requests for whoever pays for them.
  fields.ignore('user', 'metadata', 'safety_identifier', 'prompt_cache_key');
  fields.unsupported('functions', 'audio', 'prediction', 'web_search_options', 'reasoning_effort', 'verbosity');
  fields.unsupported('moderation', 'prompt_cache_options', 'prompt_cache_retention');
  const { isStream, includeUsage } = streamOf(fields);
  const returnProgress = fields.boolean('return_progress') ?? false;
  const timingsPerToken = fields.boolean('timings_per_token') ?? false;
  // Where something is computed, which changes nothing that is answered.
  fields.ignore('cache_prompt', 'id_slot');
  fields.end();
  return {
    messages: [message],
    form: {
      kind: 'chat',
      isStream,
      includeUsage,
      includeTokens: false,
      logprobs,
      echo: false,
      timingsPerToken,
      returnProgress,
    },
  };
}

/**
 * A conversation with its tools and what its template is told. A turn of the assistant at its end is gone on with, as llama.cpp
 * has it, unless the request says otherwise.
 */
export function conversationOf(fields: Fields): ChatInput {
  const messages = messagesOf(fields);
  const addGenerationPrompt = fields.boolean('add_generation_prompt');
  const last = messages.at(-1);
  const isBegun = last?.role === 'assistant' && last.toolCalls.length === 0 && last.reasoning === '';
  return {
    messages,
    tools: toolsOf(fields),
    toolChoice: undefined,
    parallelToolCalls: undefined,
    addGenerationPrompt,
    continueFinalMessage: fields.boolean('continue_final_message') ?? (isBegun && addGenerationPrompt === undefined),
    templateVariablesJson: variablesOf(fields),
  };
}

/** What vLLM and llama.cpp call the variables that a request has for the template. */
function variablesOf(fields: Fields): string {
  return fields.objectText('chat_template_kwargs') ?? '';
}

/** The turns of a conversation. */
function messagesOf(fields: Fields): ChatMessage[] {
  const messages = fields.objects('messages');
  if (messages === undefined) return fields.refuse('messages', 'is missing');
  return messages.map((message) => {
    const turn: ChatMessage = {
      role: message.string('role') ?? message.refuse('role', 'is missing'),
      content: contentOf(message),
      name: message.string('name') ?? '',
      toolCalls: (message.objects('tool_calls') ?? []).map(toolCallOf),
      toolCallId: message.string('tool_call_id') ?? '',
      // vLLM's name for it comes second.
      reasoning: message.string('reasoning_content') ?? message.string('reasoning') ?? '',
    };
    message.unsupported('audio', 'function_call');
    // What other servers and their clients add to a turn.
    message.ignore('refusal', 'annotations', 'reasoning', 'reasoning_details', 'extra_content', 'cache_control');
    message.end();
    return turn;
  });
}

/** A text, or parts that are texts: joined as they come. */
function contentOf(message: Fields): string {
  const content = message.any('content');
  if (content === undefined || typeof content === 'string') return content ?? '';
  const parts = message.objects('content') ?? [];
  return parts
    .map((part) => {
      const type = part.string('type');
      if (type !== 'text' && type !== 'refusal') {
        return part.refuse('type', `is ${JSON.stringify(type)}: only "text" is taken`);
      }
      const text = part.string(type) ?? part.refuse(type, 'is missing');
      part.ignore('cache_control');
      part.end();
      return text;
    })
    .join('');
}

function toolCallOf(call: Fields): ToolCall {
  call.mustBe('type', 'function');
  const called = call.object('function') ?? call.refuse('function', 'is missing');
  const toolCall = {
    id: call.string('id') ?? '',
    name: called.string('name') ?? called.refuse('name', 'is missing'),
    argumentsJson: argumentsOf(called),
  };
  call.ignore('index', 'extra_content');
  called.end();
  call.end();
  return toolCall;
}

/** The arguments of an earlier call: their JSON as OpenAI has it, an object as other servers have it, or nothing. */
function argumentsOf(called: Fields): string {
  const given = called.any('arguments');
  if (given === undefined || typeof given === 'string') return given ?? '';
  if (!isJsonObject(given) && !Array.isArray(given))
    called.refuse('arguments', 'is neither a string nor a JSON object');
  return jsonText(given);
}

function textAlone(fields: Fields): void {
  const modalities = fields.strings('modalities') ?? ['text'];
  if (modalities.join() !== 'text') fields.refuse('modalities', 'is taken with ["text"] alone');
}
