import { isJsonObject, jsonText } from '../../../../lib/json/exact-json.js';
import {
  ChatInput,
  type Constraint,
  GenerateStreamRequest,
  type SamplingParameters,
} from '../../../../shared/generated/rocmforge/v1/inference.js';
import { effortOf, effortVariables, thinkingSwitch, variablesJson } from '../effort.js';
import type { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import { fillInInput } from '../fill-in.js';
import { toolsOf } from '../openai/tool-fields.js';
import type { AnswerForm, FormDefaults, JsonGeneration } from '../request.js';
import { samplingOf } from '../sampling-fields.js';
import { durationMs, type OllamaForm } from './ollama-form.js';
import { ollamaTurns, refuseImages } from './ollama-turns.js';

/** Default sampling parameters of Ollama (`api.DefaultOptions`), except its repetition penalty over 64 tokens. */
const DEFAULTS = { temperature: 0.8, topK: 40, topP: 0.9 } as const;

/** Any JSON value, as `format: "json"` requests it. */
const ANY_OBJECT = '{"type":"object"}';

/** Options about the place and the way of computing, which change nothing in the response. */
const LOAD_OPTIONS = [
  ...['num_keep', 'num_batch', 'num_gpu', 'main_gpu', 'num_thread', 'numa', 'low_vram', 'f16_kv', 'vocab_only'],
  ...['use_mmap', 'use_mlock', 'logits_all', 'embedding_only', 'rope_frequency_base', 'rope_frequency_scale'],
  ...['penalize_newline', 'num_gqa'],
];

/**
 * Reads a request of Ollama's `POST /api/chat` (https://docs.ollama.com/api/chat). Without messages it only loads the model.
 *
 * @throws RocmForgeError `INVALID_FIELD` or `NOT_IMPLEMENTED`, naming the field
 */
export function ollamaChatRequest(body: unknown, policy: FieldPolicy): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const messages = ollamaTurns(fields.objects('messages') ?? []);
  const tools = toolsOf(fields);
  const last = messages.at(-1);
  const isBegun = last?.role === 'assistant' && last.toolCalls.length === 0 && last.reasoning === '';
  const value = ChatInput.fromPartial({ messages, tools, continueFinalMessage: isBegun, ...thinkingOf(fields) });
  return generationOf(fields, 'chat', messages.length === 0 ? undefined : { $case: 'chat', value });
}

/**
 * Reads one of `POST /api/generate` (https://docs.ollama.com/api/generate): the prompt is a user message if the model has a chat
 * template, unless it is `raw`. Without a prompt it only loads the model.
 *
 * @throws as {@link ollamaChatRequest}
 */
export function ollamaGenerateRequest(body: unknown, policy: FieldPolicy, defaults: FormDefaults): JsonGeneration {
  const fields = new Fields(body, '', policy);
  const prompt = fields.string('prompt') ?? '';
  const system = fields.string('system') ?? '';
  const isRaw = fields.boolean('raw') ?? false;
  const suffix = fields.string('suffix') ?? '';
  if (fields.string('template')) fields.unsupported('template');
  if ((fields.ids('context') ?? []).length > 0) fields.unsupported('context');
  refuseImages(fields);
  const thinking = thinkingOf(fields);
  const inputOf = (): GenerateStreamRequest['input'] => {
    if (suffix !== '') return fillInInput({ prefix: prompt, suffix, files: [] }, defaults, 'suffix');
    if (prompt === '') return undefined;
    if (isRaw || !defaults.hasChatTemplate) {
      const text = isRaw || system === '' ? prompt : `${system}\n\n${prompt}`;
      return { $case: 'text', value: { text, addSpecial: true, parseSpecial: isRaw } };
    }
    const messages = [
      ...(system === '' ? [] : [{ role: 'system', content: system }]),
      { role: 'user', content: prompt },
    ];
    return { $case: 'chat', value: ChatInput.fromPartial({ messages, ...thinking }) };
  };
  return generationOf(fields, 'generate', inputOf());
}

/** The fields that both share. @param input absent: the request only loads or unloads the model */
function generationOf(fields: Fields, api: OllamaForm['api'], input: GenerateStreamRequest['input']): JsonGeneration {
  const model = fields.string('model') ?? fields.string('name') ?? '';
  fields.ignore('name');
  const keepAlive = fields.rounded('keep_alive');
  const keepAliveMs = keepAlive === undefined ? undefined : durationMs(keepAlive, 'keep_alive');
  const isAsked = fields.boolean('logprobs') ?? false;
  const top = fields.integer('top_logprobs', 0, 20) ?? 0;
  const logprobs = isAsked ? top : undefined;
  const message = GenerateStreamRequest.fromPartial({ model, output: { logprobs } });
  message.input = input;
  message.constraint = formatOf(fields);
  fields.standsFor('constraint', 'format');
  fields.standsFor('model', 'model', 'name');
  fields.standsFor('output.logprobs', 'top_logprobs', 'logprobs');
  for (const kind of ['text', 'tokens', 'mixed'] as const) fields.standsFor(kind, 'prompt');
  fields.standsFor('chat.template_variables_json', 'think');
  if (api === 'chat') fields.standsFor('chat.continue_final_message', 'messages');
  else for (const kind of ['chat', 'chat.messages'] as const) fields.standsFor(kind, 'prompt');
  readOptions(fields.object('options') ?? new Fields({}, 'options', fields.policy), message);
  const isStream = fields.boolean('stream') ?? true;
  // Prompts that do not fit are rejected: nothing is cut unless the client does it.
  fields.reportUnless('truncate', false);
  fields.reportUnless('shift', false);
  fields.end();
  const ollama = { api, model, keepAliveMs };
  const form: AnswerForm = {
    ...{ kind: api === 'chat' ? 'ollamaChat' : 'ollamaGenerate', isStream, includeUsage: true, includeTokens: false },
    ...{ logprobs, echo: false, timingsPerToken: false, returnProgress: false, ollama },
  };
  return { messages: input === undefined ? [] : [message], form };
}

/** `options`: sampling and stop conditions by llama.cpp's names. */
function readOptions(options: Fields, message: GenerateStreamRequest): void {
  const given = samplingOf(options);
  const seed = options.number('seed') ?? -1;
  const sampling: SamplingParameters = {
    ...given,
    temperature: given.temperature ?? DEFAULTS.temperature,
    topK: options.has('top_k') ? Math.max(given.topK, 0) : DEFAULTS.topK,
    topP: given.topP ?? (options.has('top_p') ? undefined : DEFAULTS.topP),
    seed: seed < 0 ? undefined : given.seed,
  };
  options.standsFor('stop.max_tokens', 'num_predict');
  options.standsFor('stop.strings', 'stop');
  const most = options.integer('num_predict', -2, 2 ** 31 - 1) ?? -1;
  const stops = typeof options.any('stop') === 'string' ? [options.string('stop') as string] : options.strings('stop');
  message.sampling = sampling;
  message.stop = {
    strings: (stops ?? []).filter((text) => text !== ''),
    ...{ tokenIds: [], includeStopString: false, ignoreEos: false, minTokens: 0 },
    // 0 asks for nothing, which no generation is.
    maxTokens: most < 0 ? undefined : Math.max(most, 1),
  };
  // The context is the gateway's; what does not fit is rejected.
  options.reportIgnored('num_ctx');
  options.ignore(...LOAD_OPTIONS);
  options.end();
}

/** The template's variables for `think`: a switch or an effort. */
function thinkingOf(fields: Fields): Pick<ChatInput, 'templateVariablesJson'> {
  const think = fields.any('think');
  const effort = typeof think === 'string' && think !== '' ? effortOf(fields, 'think') : undefined;
  const isOn = typeof think === 'string' ? undefined : fields.boolean('think');
  const variables = { ...effortVariables(effort), ...(isOn !== undefined && thinkingSwitch(isOn)) };
  return { templateVariablesJson: variablesJson(undefined, variables) };
}

/** `format`: any JSON object, or a JSON schema. */
function formatOf(fields: Fields): Constraint | undefined {
  const format = fields.any('format');
  if (format === undefined || format === '') return undefined;
  if (format === 'json') return { kind: { $case: 'jsonSchema', value: ANY_OBJECT } };
  if (!isJsonObject(format)) return fields.refuse('format', 'must be "json" or a JSON Schema');
  return { kind: { $case: 'jsonSchema', value: jsonText(format) } };
}
