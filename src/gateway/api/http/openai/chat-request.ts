import { isJsonObject, jsonText } from '../../../../lib/json/exact-json.js';
import type { ChatInput, ChatMessage, ToolCall } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { effortOf, effortVariables, thinkingSwitch, variablesJson } from '../effort.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields, TEXT_OR_PARTS } from '../fields.js';
import type { FormDefaults, JsonGeneration } from '../request.js';
import { bestOf, maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import { separatorOf } from '../text-parts.js';
import { streamOf } from './stream-fields.js';
import { chosenTools, toolsOf } from './tool-fields.js';

/**
 * Reads a request of OpenAI's `POST /v1/chat/completions`, with the fields that vLLM and llama.cpp added.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function chatRequest(body: unknown, policy: FieldPolicy, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const isAsked = fields.boolean('logprobs') ?? false;
  const top = fields.integer('top_logprobs', 0, 20);
  if (top !== undefined && top > 0 && !isAsked) fields.refuse('top_logprobs', 'asks for logprobs, which is not true');
  const logprobs = isAsked ? (top ?? 0) : undefined;
  const message = messageOf(fields, {
    input: {
      $case: 'chat',
      value: {
        ...conversationOf(fields),
        ...chosenTools(fields),
        parallelToolCalls: fields.boolean('parallel_tool_calls'),
      },
    },
    sampling: samplingOf(fields),
    stop: stopOf(fields, maxTokensOf(fields, 'max_completion_tokens', 'max_tokens', 'n_predict')),
    output: { logprobs, promptText: fields.boolean('verbose') ?? defaults.verbose },
  });
  fields.standsFor('output.logprobs', 'top_logprobs', 'logprobs');
  fields.standsFor('output.echo', 'verbose', 'messages');
  bestOf(fields, message.n);
  textAlone(fields);
  legacyFunctions(fields);
  // Billing metadata, and hints for other servers' caches.
  fields.ignore('user', 'metadata', 'safety_identifier', 'prompt_cache_key');
  fields.reportUnless('store', false);
  fields.reportUnless('service_tier', 'auto', 'default');
  fields.unsupported('audio', 'chat_template', 'prompt_logprobs', 'allowed_token_ids');
  fields.mustBeEmpty('bad_words', 'documents');
  fields.mustBe('echo', false);
  fields.mustBe('return_token_ids', false);
  fields.mustBe('reasoning_format', 'auto', 'deepseek', 'deepseek-legacy');
  fields.unsupported('truncate_prompt_tokens');
  const { isStream, includeUsage, continuousUsage } = streamOf(fields);
  const includeReasoning = fields.boolean('include_reasoning') ?? true;
  const returnProgress = fields.boolean('return_progress') ?? false;
  const returnRecovery = fields.boolean('return_recovery') ?? false;
  const timingsPerToken = fields.boolean('timings_per_token') ?? false;
  // Field about the place of computing, which changes nothing in the response.
  fields.ignore('cache_prompt', 'id_slot');
  fields.end();
  return {
    messages: [message],
    form: {
      kind: 'chat',
      isStream,
      includeUsage,
      continuousUsage,
      includeReasoning,
      includeTokens: false,
      logprobs,
      echo: false,
      timingsPerToken,
      returnProgress,
      returnRecovery,
    },
  };
}

/**
 * A conversation with its tools and what its template is told. A turn of the assistant at its end is gone on with, as llama.cpp
 * has it, unless the request says otherwise.
 */
export function conversationOf(fields: Fields): ChatInput {
  const messages = messagesOf(fields);
  fields.standsFor('chat.continue_final_message', 'continue_final_message', 'messages');
  fields.standsFor('chat.template_variables_json', 'chat_template_kwargs', 'reasoning_effort');
  fields.standsFor('chat.tool_choice', 'tool_choice');
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
    reasoningTokens: reasoningTokensOf(fields),
  };
}

/** The variables for the template, as vLLM and llama.cpp name them, and those that follow from how much the model is to reason. */
function variablesOf(fields: Fields): string {
  fields.objectText('chat_template_kwargs');
  const reasoning = fields.object('reasoning');
  const effort = effortOf(fields, 'reasoning_effort') ?? (reasoning && effortOf(reasoning, 'effort'));
  reasoning?.end();
  const isOn = fields.boolean('enable_thinking');
  const derived = { ...effortVariables(effort), ...(isOn !== undefined && thinkingSwitch(isOn)) };
  return variablesJson(fields.any('chat_template_kwargs'), derived);
}

/** The most tokens of reasoning, as vLLM and llama.cpp name them. */
function reasoningTokensOf(fields: Fields): number | undefined {
  const names = ['thinking_token_budget', 'thinking_budget_tokens'];
  const given = names.map((name) => fields.integer(name, -1, 2 ** 31 - 1)).find((one) => one !== undefined);
  return given === -1 ? undefined : given;
}

/** The turns of a conversation. */
function messagesOf(fields: Fields): ChatMessage[] {
  const messages = fields.objects('messages');
  if (messages === undefined) return fields.refuse('messages', 'is missing');
  return messages.map((message) => {
    const role = message.string('role') ?? message.refuse('role', 'is missing');
    const turn: ChatMessage = {
      role,
      content: contentOf(message, role),
      name: message.string('name') ?? '',
      toolCalls: (message.objects('tool_calls') ?? []).map(toolCallOf),
      toolCallId: message.string('tool_call_id') ?? '',
      // vLLM's name for it comes second.
      reasoning: message.string('reasoning_content') ?? message.string('reasoning') ?? thoughtsOf(message),
    };
    message.unsupported('audio', 'function_call');
    message.mustBeEmpty('images');
    // Additions of other servers and their clients to a turn.
    message.ignore('refusal', 'annotations', 'reasoning', 'reasoning_details', 'extra_content', 'cache_control');
    message.ignore('type', 'id', 'thinking');
    message.end();
    return turn;
  });
}

/** Reasoning of an earlier turn, if it is a part of its content. */
function thoughtsOf(message: Fields): string {
  const content = message.any('content');
  if (!Array.isArray(content)) return '';
  const parts = message.objects('content', TEXT_OR_PARTS) ?? [];
  return parts
    .filter((part) => part.any('type') === 'thinking')
    .map((part) => part.string('thinking') ?? '')
    .join('');
}

/** Types of parts that are texts, and the field that each has its text in. */
const TEXT_PARTS: ReadonlyMap<string | undefined, string> = new Map([
  ['text', 'text'],
  ['input_text', 'text'],
  ['output_text', 'text'],
  ['refusal', 'refusal'],
]);

/** A text, or parts that are texts. */
function contentOf(message: Fields, role: string): string {
  const content = message.any('content');
  if (content === undefined || typeof content === 'string') return content ?? '';
  const texts = (message.objects('content', TEXT_OR_PARTS) ?? []).flatMap((part) => {
    const type = part.string('type');
    if (type === 'thinking') {
      // See thoughtsOf; another server's signature says nothing here.
      part.ignore('thinking', 'signature');
      part.end();
      return [];
    }
    const name = TEXT_PARTS.get(type);
    if (name === undefined) return part.refuse('type', `is ${JSON.stringify(type)}; only text input is supported`);
    const text = part.string(name) ?? part.refuse(name, 'is missing');
    part.ignore('cache_control', 'annotations', 'logprobs');
    part.end();
    return [text];
  });
  return texts.join(separatorOf(role));
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

/** Calls as they were before tools: answers in their form are not built. */
function legacyFunctions(fields: Fields): void {
  fields.mustBe('function_call', 'none', 'auto');
  if ((fields.list('functions') ?? []).length > 0) fields.refuse('functions', 'is not supported; send tools');
}

function textAlone(fields: Fields): void {
  const modalities = fields.strings('modalities') ?? ['text'];
  if (modalities.join() !== 'text') fields.refuse('modalities', 'must be ["text"]');
}
