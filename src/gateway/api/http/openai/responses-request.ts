import { jsonText } from '../../../../lib/json/exact-json.js';
import { ChatMessage, type Constraint } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { effortOf, effortVariables, variablesJson } from '../effort.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import type { AnswerForm, FormDefaults, JsonGeneration } from '../request.js';
import { maxTokensOf, messageOf, samplingOf, stopOf } from '../sampling-fields.js';
import type { ResponsesForm } from './responses-form.js';
import { referencesOf, responsesInput } from './responses-input.js';
import { responsesTools } from './responses-tools.js';

/**
 * Reads a request of OpenAI's `POST /v1/responses` (https://platform.openai.com/docs/api-reference/responses). What it refers to
 * of stored responses is in `defaults.stored`; where that is absent and the request refers to any, the form says what it needs.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function responsesRequest(body: unknown, policy: FieldPolicy, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const isStream = fields.boolean('stream') ?? false;
  const previous = fields.string('previous_response_id');
  const itemIds = referencesOf(fields);
  const stored = defaults.stored ?? { turns: [], items: {} };
  if (defaults.stored === undefined && (previous !== undefined || itemIds.length > 0)) {
    const needs = { responseId: previous, itemIds };
    return {
      messages: [],
      form: formOf({ isStream, timingsPerToken: false, returnProgress: false }, { ...NOTHING, needs }),
    };
  }
  const turns = [...stored.turns, ...responsesInput(fields, stored)];
  const instructions = fields.string('instructions') ?? '';
  const offered = responsesTools(fields);
  const { variables, summarizes } = reasoningFields(fields);
  const constraint = textFormat(fields);
  const message = messageOf(fields, {
    input: {
      $case: 'chat',
      value: {
        messages:
          instructions === '' ? turns : [ChatMessage.fromPartial({ role: 'system', content: instructions }), ...turns],
        tools: [...offered.tools],
        toolChoice: offered.toolChoice,
        parallelToolCalls: fields.boolean('parallel_tool_calls'),
        addGenerationPrompt: undefined,
        continueFinalMessage: false,
        templateVariablesJson: variables,
      },
    },
    sampling: samplingOf(fields),
    stop: stopOf(fields, maxTokensOf(fields, 'max_output_tokens')),
    output: {},
  });
  fields.standsFor('chat', 'input');
  fields.standsFor('chat.tools', 'tools');
  fields.standsFor('chat.tool_choice', 'tool_choice');
  fields.standsFor('chat.template_variables_json', 'chat_template_kwargs', 'reasoning');
  if (constraint !== undefined && message.constraint === undefined) {
    fields.object('text')?.standsFor('constraint', 'format');
  }
  if (constraint !== undefined && message.constraint !== undefined) {
    fields.refuse('text.format', 'cannot be combined with another constraint; send one of them');
  }
  message.constraint ??= constraint;
  const stores = fields.boolean('store') ?? true;
  const include = fields.strings('include') ?? [];
  withoutEffect(fields, include);
  const echo = echoOf(fields, stores);
  const timingsPerToken = fields.boolean('timings_per_token') ?? false;
  const returnProgress = fields.boolean('return_progress') ?? false;
  fields.end();
  const encrypts = include.includes('reasoning.encrypted_content');
  const { customTools } = offered;
  return {
    messages: [message],
    form: formOf(
      { isStream, timingsPerToken, returnProgress },
      { echo, summarizes, encrypts, customTools, ...(stores && { turns }) },
    ),
  };
}

const NOTHING: ResponsesForm = { echo: '', summarizes: false, encrypts: false, customTools: [] };

function formOf(
  stream: Pick<AnswerForm, 'isStream' | 'timingsPerToken' | 'returnProgress'>,
  responses: ResponsesForm,
): AnswerForm {
  const base = { kind: 'responses', includeUsage: true, includeTokens: false, logprobs: undefined } as const;
  return { ...base, echo: false, ...stream, responses };
}

/** The template's variables, and whether the reasoning is reported as a summary. */
function reasoningFields(fields: Fields): { readonly variables: string; readonly summarizes: boolean } {
  fields.objectText('chat_template_kwargs');
  const reasoning = fields.object('reasoning');
  const effort = reasoning && effortOf(reasoning, 'effort');
  const summary = reasoning?.string('summary') ?? reasoning?.string('generate_summary');
  reasoning?.ignore('generate_summary');
  reasoning?.end();
  const variables = variablesJson(fields.any('chat_template_kwargs'), effortVariables(effort));
  return { variables, summarizes: summary !== undefined && summary !== 'none' };
}

/** Constraint on the text. */
function textFormat(fields: Fields): Constraint | undefined {
  const text = fields.object('text');
  const format = text?.object('format');
  text?.reportUnless('verbosity', 'medium');
  text?.end();
  const type = format?.string('type') ?? 'text';
  if (format === undefined || type === 'text') return undefined;
  format.ignore('name', 'description', 'strict');
  if (type === 'json_object') {
    format.end();
    return { kind: { $case: 'jsonSchema', value: '{"type":"object"}' } };
  }
  if (type !== 'json_schema') format.refuse('type', 'must be "text", "json_object" or "json_schema"');
  const value = format.objectText('schema', 'a JSON Schema, an object') ?? format.refuse('schema', 'is missing');
  format.end();
  return { kind: { $case: 'jsonSchema', value } };
}

/** Fields that are refused because they would change the answer, and fields that are ignored because they do not. */
function withoutEffect(fields: Fields, include: readonly string[]): void {
  fields.mustBe('n', 1);
  fields.mustBe('background', false);
  fields.mustBe('top_logprobs', 0);
  fields.unsupported('conversation', 'prompt', 'moderation');
  if (include.includes('message.output_text.logprobs')) {
    fields.refuse('include', 'has "message.output_text.logprobs", which is not supported; use /v1/chat/completions');
  }
  // Billing metadata, and hints for other servers' caches and streams.
  fields.ignore('user', 'metadata', 'safety_identifier', 'prompt_cache_key', 'client_metadata', 'stream_options');
  fields.ignore('max_tool_calls', 'prompt_cache_retention');
  fields.reportUnless('service_tier', 'auto', 'default');
  // A conversation that does not fit is refused: nothing is left out of it.
  fields.reportUnless('truncation', 'disabled');
}

/** The members of the response that repeat the request, and what holds where it says nothing. */
const ECHOED: Readonly<Record<string, unknown>> = {
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt_cache_key: null,
  safety_identifier: null,
  temperature: 1,
  tool_choice: 'auto',
  tools: [],
  top_p: 1,
  truncation: 'disabled',
  user: null,
};

function echoOf(fields: Fields, stores: boolean): string {
  const echoed = Object.entries(ECHOED).map(([name, otherwise]) => [name, fields.any(name) ?? otherwise] as const);
  const reasoning = { effort: null, summary: null, ...givenOf(fields, 'reasoning') };
  const text = { format: { type: 'text' }, verbosity: 'medium', ...givenOf(fields, 'text') };
  const all = { ...Object.fromEntries(echoed), reasoning, text, store: stores, background: false, top_logprobs: 0 };
  return jsonText({ ...all, service_tier: 'default' }).slice(1, -1);
}

/** The members of an object that are not null, which means absent. */
const givenOf = (fields: Fields, name: string): object =>
  Object.fromEntries(Object.entries((fields.any(name) ?? {}) as object).filter(([, value]) => value !== null));
