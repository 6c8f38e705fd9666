import { type ChatInput, ChatMessage, type Constraint } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { effortOf, thinkingSwitch, variablesJson } from '../effort.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import type { JsonGeneration } from '../request.js';
import { maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import { toolsOf } from './messages-tools.js';
import { systemOf, turnsOf } from './messages-turns.js';

/**
 * Reads a request of Anthropic's `POST /v1/messages` (https://docs.anthropic.com/en/api/messages).
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function messagesRequest(body: unknown, policy: FieldPolicy): JsonGeneration {
  const fields = new Fields(body, '', policy);
  if (!fields.has('max_tokens')) fields.refuse('max_tokens', 'is missing');
  return readMessages(fields);
}

/** Reads one of `POST /v1/messages/count_tokens`: the same, and nothing need say where it ends. @throws as {@link messagesRequest} */
export function countRequest(body: unknown, policy: FieldPolicy): JsonGeneration {
  return readMessages(new Fields(body, '', policy));
}

function readMessages(fields: Fields): JsonGeneration {
  const stop = stopOf(fields, maxTokensOf(fields, 'max_tokens'));
  const sequences = (fields.strings('stop_sequences') ?? []).filter((text) => text !== '');
  const message = messageOf(fields, {
    input: { $case: 'chat', value: conversationOf(fields) },
    sampling: samplingOf(fields),
    stop: { ...stop, strings: [...stop.strings, ...sequences] },
    output: {},
  });
  // One message is answered with one.
  fields.mustBe('n', 1);
  fields.reportUnless('service_tier', 'auto', 'standard_only');
  // Billing metadata is ignored; prefix caching needs no request.
  fields.ignore('metadata', 'cache_control');
  // Clients manage their contexts themselves where a server does not.
  fields.ignore('context_management');
  const format = outputFormatOf(fields);
  if (format !== undefined && message.constraint !== undefined) {
    fields.refuse('output_config', 'has a format and another constraint; send one of them');
  }
  if (format !== undefined) fields.standsFor('constraint', 'output_format', 'output_config');
  if (fields.object('output_config')?.has('format')) fields.object('output_config')?.standsFor('constraint', 'format');
  fields.standsFor('chat', 'messages');
  fields.standsFor('chat.tools', 'tools');
  fields.standsFor('chat.tool_choice', 'tool_choice');
  fields.standsFor('chat.template_variables_json', 'thinking', 'output_config');
  message.constraint ??= format;
  fields.mustBeEmpty('mcp_servers');
  fields.unsupported('container');
  const isStream = fields.boolean('stream') ?? false;
  fields.end();
  const form = { kind: 'messages', isStream, includeUsage: true, includeTokens: false } as const;
  return {
    messages: [message],
    form: { ...form, logprobs: undefined, echo: false, timingsPerToken: false, returnProgress: false },
  };
}

function conversationOf(fields: Fields): ChatInput {
  const given = fields.objects('messages') ?? fields.refuse('messages', 'is missing');
  const system = systemOf(fields);
  const messages = given.flatMap(turnsOf);
  const last = messages.at(-1);
  const isBegun = last?.role === 'assistant' && last.toolCalls.length === 0 && last.reasoning === '';
  return {
    messages: system === '' ? messages : [ChatMessage.fromPartial({ role: 'system', content: system }), ...messages],
    ...toolsOf(fields),
    addGenerationPrompt: undefined,
    continueFinalMessage: isBegun,
    ...thinkingOf(fields),
  };
}

/** The variables of templates, and the most tokens of reasoning, that follow from whether and how much the model is to think. */
function thinkingOf(fields: Fields): Pick<ChatInput, 'templateVariablesJson' | 'reasoningTokens'> {
  const output = fields.object('output_config');
  const effort = output && effortOf(output, 'effort');
  const ofEffort = effort === undefined ? {} : { reasoning_effort: effort };
  const thinking = fields.object('thinking');
  if (thinking === undefined)
    return { templateVariablesJson: variablesJson(undefined, ofEffort), reasoningTokens: undefined };
  const type = thinking.string('type');
  const reasoningTokens = thinking.integer('budget_tokens', 0, 2 ** 31 - 1);
  thinking.ignore('display');
  if (type !== 'adaptive' && type !== 'enabled' && type !== 'disabled')
    thinking.refuse('type', 'must be "adaptive", "enabled" or "disabled"');
  thinking.end();
  const variables = { ...ofEffort, ...thinkingSwitch(type !== 'disabled') };
  return { templateVariablesJson: variablesJson(undefined, variables), reasoningTokens };
}

/** Constraint on the answer's text: `output_config.format`, or `output_format` as it was called before. */
function outputFormatOf(fields: Fields): Constraint | undefined {
  const output = fields.object('output_config');
  output?.ignore('effort');
  const format = output?.object('format') ?? fields.object('output_format');
  fields.ignore('output_format');
  output?.end();
  if (format === undefined) return undefined;
  if (format.string('type') !== 'json_schema') format.refuse('type', 'must be "json_schema"');
  const value = format.objectText('schema', 'a JSON Schema, an object') ?? format.refuse('schema', 'is missing');
  format.ignore('name');
  format.end();
  return { kind: { $case: 'jsonSchema', value } };
}
