import fc from 'fast-check';
import { expect, it } from 'vitest';
import { messagesRequest } from '../../../src/gateway/api/http/anthropic/messages-request.js';
import { MessagesResponse } from '../../../src/gateway/api/http/anthropic/messages-response.js';
import { FieldPolicy } from '../../../src/gateway/api/http/field-policy.js';
import { jsonOf } from '../../../src/gateway/api/http/json-slices.js';
import type { OllamaForm } from '../../../src/gateway/api/http/ollama/ollama-form.js';
import { ollamaChatRequest } from '../../../src/gateway/api/http/ollama/ollama-request.js';
import { OllamaResponse } from '../../../src/gateway/api/http/ollama/ollama-response.js';
import { chatRequest } from '../../../src/gateway/api/http/openai/chat-request.js';
import { messageOf } from '../../../src/gateway/api/http/openai/chat-turn.js';
import { responsesRequest } from '../../../src/gateway/api/http/openai/responses-request.js';
import { ResponsesResponse } from '../../../src/gateway/api/http/openai/responses-writer.js';
import type { AnswerFacts } from '../../../src/gateway/api/http/request.js';
import type { AnswerFormat, ToolParser } from '../../../src/gateway/chat/answer/answer-format.js';
import { type ChatMessage, ChatTemplate } from '../../../src/gateway/chat/chat-template.js';
import { checkGeneration } from '../../../src/gateway/request/validate.js';
import { parseJson } from '../../../src/lib/json/exact-json.js';
import {
  Completion,
  GenerateResponse,
  type GenerateStreamRequest,
} from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { smallSpm, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { runs, seed } from '../../support/run-size.js';
import { readTurn, TOOLS } from './answer/turns.js';

const CALLED = '{% for c in m.tool_calls or [] %}';
const around = (call: string, head = '') =>
  `{% for m in messages %}${head}<{{ m.role }}>{{ m.reasoning_content or '' }}{{ m.content or '' }}${CALLED}<call>{{ c.function.name }}|${call}</call>{% endfor %}{% endfor %}`;

/** Templates by the form in which they want the arguments and ids of calls. */
const TEMPLATES: Readonly<Record<string, string>> = {
  json: around('{{ c.function.arguments | tojson }}'),
  text: around("{{ '' + c.function.arguments }}"),
  members: around('{% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% endfor %}'),
  either: around('{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}'),
  'ids of nine characters': around(
    '{{ c.id }}{{ c.function.arguments | tojson }}',
    "{% if m.tool_call_id is defined and m.tool_call_id | length != 9 %}{{ raise_exception('id') }}{% endif %}" +
      `${CALLED}{% if c.id | length != 9 %}{{ raise_exception('id') }}{% endif %}{% endfor %}`,
  ),
};

const templates = Object.entries(TEMPLATES).map(([name, source]) => {
  const builder = smallSpm({ 'tokenizer.chat_template': source });
  return [name, new ChatTemplate(builder.read().metadata, tokenizerOf(builder))] as const;
});

const FORMATS: Readonly<Record<ToolParser, (name: string, args: string) => string>> = {
  hermes: (name, args) => `<tool_call>\n{"name": "${name}", "arguments": ${args}}\n</tool_call>`,
  llama3: (name, args) => `{"name": "${name}", "parameters": ${args}}`,
  mistral: (name, args) => `[TOOL_CALLS]${name}[ARGS]${args}`,
  glm: (name, args) => `<tool_call>${name}\n<arg_key>any</arg_key>\n<arg_value>${args}</arg_value>\n</tool_call>`,
  'qwen3-coder': (name, args) =>
    `<tool_call>\n<function=${name}>\n<parameter=any>\n${args}\n</parameter>\n</function>\n</tool_call>`,
  'seed-oss': (name, args) =>
    `<seed:tool_call>\n<function=${name}>\n<parameter=any>${args}</parameter>\n</function>\n</seed:tool_call>`,
  deepseek: (name, args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${args}<｜tool▁call▁end｜>`,
  gemma4: (name, args) => `<|tool_call>call:${name}${args}<tool_call|>`,
  'functionary-v3.2': (name, args) => `>>>${name}\n${args}`,
  functionary: (name, args) => `<function=${name}>${args}</function>`,
  firefunction: (name, args) => `functools[{"name": "${name}", "arguments": ${args}}]`,
  harmony: (name, args) => `<|channel|>commentary to=functions.${name}<|message|>${args}<|call|>`,
};

/** Arguments as models write them: an object, one written twice as JSON, escapes of half a pair, no JSON at all. */
const writtenArguments = fc.oneof(
  fc
    .dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
    .map((value) => JSON.stringify(value)),
  fc.dictionary(fc.string({ maxLength: 5 }), fc.string()).map((value) => JSON.stringify(JSON.stringify(value))),
  fc.constantFrom(
    '{}',
    '',
    '{"a": "\\ud83d"}',
    '{"a": "\\ud83d\\ude00", "b": [1, {"c": null}]}',
    '{"a": 1e400}',
    '{place: Rome}',
  ),
  fc.constantFrom(
    `{"a": ${'9'.repeat(5000)}}`,
    ...[200, 245, 250, 300].map((depth) => `{"a": ${'['.repeat(depth)}${']'.repeat(depth)}}`),
    'import os',
    '[1, 2]',
    'null',
  ),
);

/** A turn as a model writes it: reasoning or none, a text or none, up to three calls, cut anywhere or not. */
const written = fc
  .record({
    format: fc.constantFrom(...(Object.keys(FORMATS) as ToolParser[])),
    reasoning: fc.constantFrom('', 'Hm.'),
    content: fc.constantFrom('', 'I look.'),
    calls: fc.array(fc.tuple(fc.constantFrom('weather', 'clock'), writtenArguments), { maxLength: 3 }),
    share: fc.nat(1000).map((thousandths) => thousandths / 1000),
    isCut: fc.boolean(),
  })
  .map(({ format, reasoning, content, calls, share, isCut }) => {
    const isHarmony = format === 'harmony';
    const thought = isHarmony ? `<|channel|>analysis<|message|>${reasoning}<|end|>` : `<think>${reasoning}</think>`;
    const said = isHarmony ? `<|channel|>final<|message|>${content}<|end|>` : content;
    const text = [
      ...(reasoning === '' ? [] : [thought]),
      ...(content === '' ? [] : [said]),
      ...calls.map(([name, args]) => FORMATS[format](name, args)),
    ].join('');
    const answer: AnswerFormat = { tools: format, reasoning: isHarmony ? 'harmony' : 'think' };
    return { answer, text: isCut ? text.slice(0, Math.floor(share * text.length)) : text, isCut };
  });

const facts = { modelName: 'm', contextLength: 1e6, vocabularySize: 1000, longestTokenBytes: 100, maxPriority: 0 };
const question = { role: 'user', content: 'The weather?' };
let ids = 0;

/** The gateway's reading of a turn, with ids as another server gives them, too. */
function answered({ answer, text, isCut }: { answer: AnswerFormat; text: string; isCut: boolean }): Completion {
  const { content = '', reasoning = '', calls = [] } = readTurn(answer, [text], { isCut });
  const toolCalls = calls.map(({ name, args }) => ({
    id: ++ids % 2 ? `call_${ids}_of_another` : `nine${10000 + (ids % 9999)}`,
    name,
    argumentsJson: args,
  }));
  return Completion.fromPartial({ text: content, reasoning, toolCalls });
}

function openAi(turns: readonly Completion[]): GenerateStreamRequest {
  const messages = turns.flatMap((turn) => [
    question,
    messageOf(turn),
    ...turn.toolCalls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: 'noon' })),
  ]);
  return chatRequest(parseJson(jsonOf({ messages: [...messages, question] })), new FieldPolicy(true), {
    verbose: false,
  }).messages[0]!;
}

function anthropic(turns: readonly Completion[]): GenerateStreamRequest {
  const writer = new MessagesResponse({ model: 'm' } as AnswerFacts);
  const messages = turns.flatMap((turn) => {
    const whole = writer.unaryBody([GenerateResponse.fromPartial({ requestId: 'r', completions: [turn] })]);
    const results = turn.toolCalls.map(({ id }) => ({ type: 'tool_result', tool_use_id: id, content: 'noon' }));
    const more = { role: 'user', content: [...results, { type: 'text', text: 'And?' }] };
    return [question, { role: 'assistant', content: (whole as { content: unknown }).content }, more];
  });
  return messagesRequest(parseJson(jsonOf({ max_tokens: 5, messages })), new FieldPolicy(true)).messages[0]!;
}

function ollama(turns: readonly Completion[]): GenerateStreamRequest {
  const writer = new OllamaResponse({ api: 'chat', model: 'm' } as OllamaForm, { model: 'm' } as AnswerFacts, false);
  const messages = turns.flatMap((turn) => {
    const whole = writer.unaryBody([GenerateResponse.fromPartial({ requestId: 'r', completions: [turn] })]);
    const results = turn.toolCalls.map(({ name }) => ({ role: 'tool', tool_name: name, content: 'noon' }));
    return [question, (whole as { message: unknown }).message, ...results];
  });
  const body = parseJson(jsonOf({ model: 'm', messages: [...messages, question] }));
  return ollamaChatRequest(body, new FieldPolicy(true)).messages[0]!;
}

function responses(turns: readonly Completion[]): GenerateStreamRequest {
  const form = { echo: '"tools":[]', summarizes: false, encrypts: false, customTools: [] };
  const input = turns.flatMap((turn) => {
    const writer = new ResponsesResponse(form, { model: 'm' } as AnswerFacts, () => undefined);
    const whole = writer.unaryBody([GenerateResponse.fromPartial({ requestId: 'r', completions: [turn] })]);
    const { output } = parseJson(jsonOf(whole)) as unknown as { output: unknown[] };
    const results = turn.toolCalls.map(({ id }) => ({ type: 'function_call_output', call_id: id, output: 'noon' }));
    return [question, ...output, ...results];
  });
  const body = parseJson(jsonOf({ model: 'm', input: [...input, question], store: false }));
  return responsesRequest(body, new FieldPolicy(true), { verbose: false }).messages[0]!;
}

it('takes back each turn that it has answered, of any format and cut anywhere, by each API', () => {
  let cutCalls = 0;
  const api = fc.constantFrom(openAi, anthropic, ollama, responses);
  fc.assert(
    fc.property(
      fc.array(written, { minLength: 1, maxLength: 3 }),
      api,
      fc.constantFrom(...templates),
      (texts, ask, [, template]) => {
        const turns = texts.map(answered);
        const request = ask(turns);
        checkGeneration(request, facts);
        const chat = (request.input as { value: { messages: ChatMessage[] } }).value;
        const { text } = template.render({
          messages: chat.messages,
          tools: TOOLS.map((tool) => ({ ...tool, description: '' })),
        });
        const calls = turns.flatMap(({ toolCalls }) => toolCalls);
        expect(text.split('<call>').length - 1).toBe(calls.length);
        for (const { text: content, reasoning } of turns) expect(text).toContain(reasoning + content);
        cutCalls += texts.filter(({ isCut }, i) => isCut && turns[i]!.toolCalls.length > 0).length;
      },
    ),
    { numRuns: runs(2000, 500), seed: seed(41) },
  );
  expect(cutCalls).toBeGreaterThan(50);
});

it.each([
  ['{"place": "', '{"place": ""}'],
  ['{"pla', '{}'],
  ['{"place": "Rome", "da', '{"place": "Rome"}'],
  ['{"place": "Ro', '{"place": "Ro"}'],
  ['{"place": "a\\', '{"place": "a"}'],
  ['{"place": "a\\\\', '{"place": "a\\\\"}'],
  ['{"place": "\\u00e', '{"place": ""}'],
  ['{"tags": ["a", {"b": [1, 2', '{"tags": ["a", {"b": [1, 2]}]}'],
  ['{"days": -', '{}'],
  ['{"id": 12345678901234567890, "x": 1.', '{"id": 12345678901234567890}'],
  ['"{\\"days\\": 2}"', '{"days": 2}'],
  [' ', '{}'],
  ['import os', '"import os"'],
])('renders of the arguments %j what is whole of them', (argumentsJson, rendered) => {
  const [, template] = templates[0]!;
  const call = { id: 'a', name: 'weather', argumentsJson };
  const { text } = template.render({ messages: [question, { role: 'assistant', content: '', toolCalls: [call] }] });
  expect(text).toContain(`<call>weather|${rendered}</call>`);
});

it('gives ids of other servers nine characters, the same in each request and for a call and its result', () => {
  const template = templates.at(-1)![1];
  const ids = ['call_1', 'call_2', 'nine12345'];
  const messages: ChatMessage[] = [
    question,
    { role: 'assistant', content: '', toolCalls: ids.map((id) => ({ id, name: 'clock', argumentsJson: '{}' })) },
    ...ids.map((id) => ({ role: 'tool', content: 'noon', toolCallId: id })),
  ];
  const { text } = template.render({ messages });
  const given = [...text.matchAll(/clock\|(.{9})\{\}/g)].map((match) => match[1]);
  expect(new Set(given).size).toBe(3);
  expect(given[2]).toBe('nine12345');
  expect(template.render({ messages: [...messages, question] }).text.startsWith(text)).toBe(true);
});
