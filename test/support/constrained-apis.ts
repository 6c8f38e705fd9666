import { expect } from 'vitest';
import { isJsonObject, jsonText, parseJson } from '../../src/shared/exact-json.js';
import type { Constraint, GenerateResponse } from '../../src/shared/generated/rocmforge/v1/inference.js';
import type { FakeGateway } from './fake-gateway.js';
import { generate, request } from './gateway.js';
import { API_SERVICE, ask } from './http.js';

const MAX_TOKENS = 2000;

/** What is at a path of a value; undefined where nothing is. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let found = value;
  for (const step of path) found = isJsonObject(found) || Array.isArray(found) ? found[step as never] : undefined;
  return found;
}

/** The JSON of each event of a stream. */
export const eventsOf = (text: string): unknown[] =>
  // Of lines alone: in a pattern `$` stands before U+2028, too, which a string may hold.
  text
    .split('\n')
    .filter((line) => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map((line) => parseJson(line.slice('data: '.length)));

const joined = (events: readonly unknown[], ...path: readonly (string | number)[]) =>
  events.map((event) => at(event, ...path) ?? '').join('');

/** Sends a body to a path. @throws the test's error where it is not answered */
async function answered(server: FakeGateway, path: string, fields: string): Promise<string> {
  const answer = await ask(server.gateway, path, `{${fields}}`, {});
  expect(answer.status, `${path} ${fields}: ${answer.text}`).toBe(200);
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
const MESSAGE = ['choices', 0, 'message'] as const;
const DELTA = ['choices', 0, 'delta'] as const;
const ARGUMENTS = ['tool_calls', 0, 'function', 'arguments'] as const;

async function overGrpc(server: FakeGateway, schema: string, prompt = 'q'): Promise<readonly string[]> {
  const constraint: Constraint = { kind: { $case: 'jsonSchema', value: schema } };
  const message = request({ text: prompt, constraint, stop: { maxTokens: MAX_TOKENS } });
  const unary = await new Promise<GenerateResponse>((resolve, reject) => {
    server.client.generate(message, (error, response) =>
      error ? reject(error) : resolve(response as GenerateResponse),
    );
  });
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
  completion: overHttp(
    '/completion',
    (schema, prompt) => `"prompt": ${prompt}, "n_predict": ${MAX_TOKENS}, "json_schema": ${schema}`,
    (answer) => String(at(answer, 'content')),
    'content',
  ),
  gRPC: overGrpc,
  Connect: async (server, schema, prompt = 'q') => {
    const fields = { text: { text: prompt }, stop: { maxTokens: MAX_TOKENS }, constraint: { jsonSchema: schema } };
    const answer = await answered(server, `/${API_SERVICE}/Generate`, JSON.stringify(fields).slice(1, -1));
    return [String(at(parseJson(answer), 'completions', 0, 'text'))];
  },
};
