import { expect } from 'vitest';
import { isJsonObject, jsonText, parseJson } from '../../src/lib/json/exact-json.js';
import {
  type Constraint,
  FinishReason,
  type GenerateResponse,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { FinishInfo_FinishReason, GenerateRequest as VllmRequest } from '../../src/shared/generated/vllm/inference.js';
import type { FakeGateway } from './fake-gateway.js';
import { generate, request } from './gateway.js';
import { API_SERVICE, ask, baseOf } from './http.js';
import { messagesOf, protocolClients, unary, vllmGenerated } from './protocols.js';

const MAX_TOKENS = 2000;

/** Value at a path; undefined if there is none. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value;
  for (const step of path) found = isJsonObject(found) || Array.isArray(found) ? found[step as never] : undefined;
  return found;
}

/** The JSON of each event of a stream. */
export const eventsOf = (text: string): unknown[] =>
  // Anchors of lines alone: in a pattern `$` stands before U+2028, too, which a string may hold.
  text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => parseJson(line.slice('data: '.length)));

const joined = (events: readonly unknown[], ...path: readonly (string | number)[]) =>
  events.map((event) => at(event, ...path) ?? '').join('');

/** An answer that its limit of tokens ended: random logits may repeat the zeros of a fraction for ever. */
export class CutAnswer extends Error {}

/** The end of an answer that its limit of tokens ended, as each HTTP API tells it. */
const CUT =
  /"(finish_reason|stop_reason|done_reason)":\s*"(length|max_tokens)"|"status":\s*"incomplete"|"stop_type":\s*"limit"|FINISH_REASON_LENGTH/;

/** Sends a body to a path. @throws CutAnswer, or the test's error where it is not answered */
async function answered(server: FakeGateway, path: string, fields: string): Promise<string> {
  const answer = await ask(server.gateway, path, `{${fields}}`, {});
  expect(answer.status, `${path} ${fields}: ${answer.text}`).toBe(200);
  if (CUT.test(answer.text)) throw new CutAnswer(answer.text.slice(-200));
  return answer.text;
}

type Answers = (server: FakeGateway, schema: string, prompt?: string) => Promise<readonly string[]>;

/** An API by its path: the fields of a request, where the value is in an answer, and where its pieces are in events. */
const overHttp =
  (
    path: string,
    fields: (schema: string, prompt: string) => string,
    value: (answer: unknown) => string,
    ...pieces: readonly (string | number)[]
  ): Answers =>
  async (server, schema, prompt = 'q') => {
    const asked = fields(schema, JSON.stringify(prompt));
    const whole = value(parseJson(await answered(server, path, asked)));
    return [whole, joined(eventsOf(await answered(server, path, `${asked}, "stream": true`)), ...pieces)];
  };

const said = (prompt: string) => `"messages": [{"role": "user", "content": ${prompt}}], "max_tokens": ${MAX_TOKENS}`;
const input = (prompt: string) => `"input": ${prompt}, "max_output_tokens": ${MAX_TOKENS}`;
const MESSAGE = ['choices', 0, 'message'] as const;
const DELTA = ['choices', 0, 'delta'] as const;
const ARGUMENTS = ['tool_calls', 0, 'function', 'arguments'] as const;

/** Ollama's API: streams unless told not to, one JSON value a line. */
const overOllama =
  (path: string, fields: (prompt: string) => string, pieces: readonly string[]): Answers =>
  async (server, schema, prompt = 'q') => {
    const asked = `"model": "m", ${fields(JSON.stringify(prompt))}, "format": ${schema}, "options": {"num_predict": ${MAX_TOKENS}}`;
    const whole = parseJson(await answered(server, path, `${asked}, "stream": false`));
    const lines = (await answered(server, path, asked)).split('\n').filter((line) => line !== '');
    return [String(at(whole, ...pieces)), joined(lines.map(parseJson), ...pieces)];
  };

async function overVllm(server: FakeGateway, schema: string, prompt = 'q'): Promise<readonly string[]> {
  const clients = protocolClients(server.address);
  const message = VllmRequest.fromPartial({
    prompt: { $case: 'text', value: prompt },
    decoding: { structuredOutput: { $case: 'json', value: schema } },
    stopping: { maxNewTokens: MAX_TOKENS },
  });
  try {
    const whole = await unary(clients.inference.generate.bind(clients.inference), message);
    const streamed = await messagesOf(clients.inference.generateStream(message));
    const { text, finishes } = vllmGenerated([whole as never]);
    if (finishes.some(({ finishReason }) => finishReason === FinishInfo_FinishReason.LENGTH)) throw new CutAnswer();
    return [text, vllmGenerated(streamed).text];
  } finally {
    clients.close();
  }
}

/** Connect's stream: envelopes of five bytes and JSON. */
async function overConnectStream(server: FakeGateway, message: string): Promise<string> {
  const body = new Uint8Array(5 + Buffer.byteLength(message));
  new DataView(body.buffer).setUint32(1, body.length - 5);
  body.set(Buffer.from(message), 5);
  const headers = { 'content-type': 'application/connect+json' };
  const response = await fetch(`${baseOf(server.gateway)}/${API_SERVICE}/GenerateStream`, {
    ...{ method: 'POST', headers, body },
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  const events: unknown[] = [];
  for (let offset = 0; offset < bytes.length; ) {
    const end = offset + 5 + bytes.readUInt32BE(offset + 1);
    events.push(parseJson(bytes.subarray(offset + 5, end).toString()));
    offset = end;
  }
  expect(at(events.at(-1), 'error'), message).toBeUndefined();
  return joined(events, 'chunk', 'text');
}

async function overGrpc(server: FakeGateway, schema: string, prompt = 'q'): Promise<readonly string[]> {
  const constraint: Constraint = { kind: { $case: 'jsonSchema', value: schema } };
  const message = request({ text: prompt, constraint, stop: { maxTokens: MAX_TOKENS } });
  const unary = await new Promise<GenerateResponse>((resolve, reject) => {
    server.client.generate(message, (error, response) =>
      error ? reject(error) : resolve(response as GenerateResponse),
    );
  });
  if (unary.completions[0]?.finishReason === FinishReason.LENGTH) throw new CutAnswer();
  return [unary.completions[0]?.text ?? '', (await generate(server.client, message)).text];
}

/** By API, the answers to a schema as texts of JSON: whole and, where the API streams, joined from its stream. */
export const CONSTRAINED_APIS: Readonly<Record<string, Answers>> = {
  'chat, content': overHttp(
    '/v1/chat/completions',
    (schema, prompt) =>
      `${said(prompt)}, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ${schema}}}`,
    (answer) => String(at(answer, ...MESSAGE, 'content')),
    ...DELTA,
    'content',
  ),
  'chat, call': overHttp(
    '/v1/chat/completions',
    (schema, prompt) =>
      `${said(prompt)}, "tool_choice": "required", "parallel_tool_calls": false, "tools": [{"type": "function", "function": {"name": "f", "parameters": ${schema}}}]`,
    (answer) => String(at(answer, ...MESSAGE, ...ARGUMENTS)),
    ...DELTA,
    ...ARGUMENTS,
  ),
  messages: overHttp(
    '/v1/messages',
    (schema, prompt) =>
      `${said(prompt)}, "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "tools": [{"name": "f", "input_schema": ${schema}}]`,
    (answer) => jsonText(at(answer, 'content', 0, 'input')),
    'delta',
    'partial_json',
  ),
  'messages, text': overHttp(
    '/v1/messages',
    (schema, prompt) => `${said(prompt)}, "output_config": {"format": {"type": "json_schema", "schema": ${schema}}}`,
    (answer) => String(at(answer, 'content', 0, 'text')),
    'delta',
    'text',
  ),
  'responses, text': overHttp(
    '/v1/responses',
    (schema, prompt) =>
      `${input(prompt)}, "text": {"format": {"type": "json_schema", "name": "a", "schema": ${schema}}}`,
    (answer) => String(at(answer, 'output', 0, 'content', 0, 'text')),
    'delta',
  ),
  'responses, call': overHttp(
    '/v1/responses',
    (schema, prompt) =>
      `${input(prompt)}, "tool_choice": "required", "parallel_tool_calls": false, "tools": [{"type": "function", "name": "f", "parameters": ${schema}}]`,
    (answer) => String(at(answer, 'output', 0, 'arguments')),
    'delta',
  ),
  completions: overHttp(
    '/v1/completions',
    (schema, prompt) =>
      `"prompt": ${prompt}, "max_tokens": ${MAX_TOKENS}, "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ${schema}}}`,
    (answer) => String(at(answer, 'choices', 0, 'text')),
    ...['choices', 0, 'text'],
  ),
  'Ollama, chat': overOllama('/api/chat', (prompt) => `"messages": [{"role": "user", "content": ${prompt}}]`, [
    'message',
    'content',
  ]),
  'Ollama, generate': overOllama('/api/generate', (prompt) => `"prompt": ${prompt}`, ['response']),
  completion: overHttp(
    '/completion',
    (schema, prompt) => `"prompt": ${prompt}, "n_predict": ${MAX_TOKENS}, "json_schema": ${schema}`,
    (answer) => String(at(answer, 'content')),
    'content',
  ),
  gRPC: overGrpc,
  Connect: async (server, schema, prompt = 'q') => {
    const fields = { text: { text: prompt }, stop: { maxTokens: MAX_TOKENS }, constraint: { jsonSchema: schema } };
    const message = JSON.stringify(fields);
    const answer = await answered(server, `/${API_SERVICE}/Generate`, message.slice(1, -1));
    return [String(at(parseJson(answer), 'completions', 0, 'text')), await overConnectStream(server, message)];
  },
  'vllm.Inference': overVllm,
};
