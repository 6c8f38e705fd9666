import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  const chatTemplate = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}';
  server = await startFakeGateway({
    ...{ script: spelled('ok'), modelName: 'demo', httpListen: '127.0.0.1:0', toolsFallback: true },
    model: { chatTemplate, contextLength: 256, metadata: { 'tokenizer.ggml.add_bos_token': false } },
  });
});
afterAll(() => server.stop());

type Body = Readonly<Record<string, unknown>>;

const TURNS = { messages: [{ role: 'user', content: 'x' }] };
const CHAT = '/v1/chat/completions';
const COMPLETIONS = '/v1/completions';
const RESPONSES = '/v1/responses';
const MESSAGES = '/v1/messages';
/** Requests that are right, by path. */
const RIGHT: Readonly<Record<string, Body>> = {
  [CHAT]: { ...TURNS, max_tokens: 4 },
  [COMPLETIONS]: { prompt: 'x' },
  [RESPONSES]: { input: 'x', max_output_tokens: 4 },
  [MESSAGES]: { ...TURNS, max_tokens: 4 },
  '/completion': { prompt: 'x', n_predict: 4 },
  '/api/chat': { ...TURNS, stream: false },
  '/api/generate': { prompt: 'x', stream: false },
};
const OLLAMA = ['/api/chat', '/api/generate'];

/** A schema that no grammar says. */
const BAD_SCHEMA = { type: 'object', properties: { a: { type: 'nothing' } } };
/** Wrong values of parameters that all paths share: `top_p`, or `options.top_p` in Ollama's API. */
const SHARED: Body = {
  ...{ temperature: -1, top_p: 2, min_p: 2, typical_p: 2, repetition_penalty: -1, repeat_penalty: -1, typ_p: 3 },
  ...{ frequency_penalty: 9, presence_penalty: 9, logit_bias: { 99999: 1 }, stop: 'x'.repeat(300) },
};
const function_ = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });

/** Wrong fields: path, fields, and the field that the error names if it is not the first. */
const WRONG: readonly (readonly [path: string, fields: Body, param?: string])[] = [
  ...Object.keys(RIGHT).flatMap((path) =>
    Object.entries(SHARED).map(([name, value]) =>
      OLLAMA.includes(path)
        ? ([path, { options: { [name]: value } }, `options.${name}`] as const)
        : ([path, { [name]: value }] as const),
    ),
  ),
  ...[CHAT, COMPLETIONS, RESPONSES, MESSAGES, '/completion'].flatMap((path) => [
    [path, { stop_token_ids: [99_999] }] as const,
    [path, { ignore_eos: true, json_schema: { type: 'object' } }] as const,
    [path, { min_tokens: 200 }] as const,
    [path, { json_schema: BAD_SCHEMA }] as const,
    [path, { grammar: 'root ::= [' }] as const,
    [path, { guided_regex: '(' }] as const,
    [path, { guided_json: BAD_SCHEMA }] as const,
    [path, { structured_outputs: { regex: '(' } }] as const,
    [path, { priority: -5 }] as const,
    [path, { request_id: 'x'.repeat(200) }] as const,
    [path, { model: 'nope' }] as const,
  ]),
  [CHAT, { messages: [] }],
  [CHAT, { messages: [{ role: 'x', content: 'x' }] }, 'messages[0].role'],
  [CHAT, { messages: [{ role: 'x'.repeat(100), content: 'x' }] }, 'messages'],
  [CHAT, { messages: [{ role: 'user', content: '\ud800' }] }],
  [CHAT, { messages: [{ role: 'user', content: 'x'.repeat(400) }] }],
  [CHAT, { chat_template_kwargs: { messages: 1 } }],
  [CHAT, { response_format: { type: 'json_schema', json_schema: { schema: BAD_SCHEMA } } }],
  [CHAT, { tools: [function_('a b')], tool_choice: 'required' }, 'tools[0].function.name'],
  [CHAT, { tool_choice: 'required' }],
  [CHAT, { tools: [function_('x'.repeat(300))] }],
  [CHAT, { messages: [{ role: 'user', content: 'x' }], continue_final_message: true }, 'continue_final_message'],
  [COMPLETIONS, { prompt: '' }],
  [COMPLETIONS, { prompt: '\ud800' }],
  [COMPLETIONS, { prompt: [99_999] }],
  [COMPLETIONS, { prompt: Array(400).fill(5) }],
  [RESPONSES, { input: [] }],
  [RESPONSES, { input: [{ role: 'x', content: 'x' }] }],
  [RESPONSES, { chat_template_kwargs: { messages: 1 } }],
  [RESPONSES, { text: { format: { type: 'json_schema', name: 'a', schema: BAD_SCHEMA } } }, 'text.format'],
  [RESPONSES, { tool_choice: 'required' }],
  [MESSAGES, { messages: [] }],
  [MESSAGES, { output_config: { format: { type: 'json_schema', schema: BAD_SCHEMA } } }, 'output_config.format'],
  [MESSAGES, { output_format: { type: 'json_schema', schema: BAD_SCHEMA } }],
  [MESSAGES, { stop_sequences: ['x'.repeat(300)] }],
  ['/completion', { prompt: '\ud800' }],
  ['/api/chat', { format: BAD_SCHEMA }],
  ['/api/chat', { messages: [{ role: 'x', content: 'x' }] }, 'messages[0].role'],
  ['/api/generate', { format: BAD_SCHEMA }],
  ['/api/generate', { prompt: '\ud800' }],
  ['/tokenize', { content: '\ud800' }],
  ['/tokenize', { prompt: '\ud800' }],
  ['/detokenize', { tokens: [-1] }],
  ['/detokenize', { tokens: [99_999] }],
  ['/detokenize', { tokens: Array(400).fill(5) }],
  ['/apply-template', { messages: [] }],
  ['/v1/messages/count_tokens', { messages: [] }],
  ['/v1/responses/input_tokens', { input: [] }],
  ['/v1/embeddings', { input: [] }],
  ['/v1/embeddings', { input: [''] }, 'input[0]'],
  ['/v1/embeddings', { input: '' }],
  ['/v1/embeddings', { input: ['x', [99_999]] }, 'input[1]'],
  ['/v1/embeddings', { input: 'x', dimensions: 99_999 }, 'dimensions'],
  ['/embedding', { content: '\ud800' }],
  ['/api/embed', { input: [] }],
  ['/api/embed', { input: ['x', '\ud800'] }, 'input[1]'],
  ['/api/embeddings', { prompt: '\ud800' }],
  ['/embed', { inputs: ['\ud800'] }, 'inputs[0]'],
  ['/v1/rerank', { query: '', documents: ['x'] }],
  ['/v1/rerank', { documents: ['x', '\ud800'], query: 'x' }, 'documents[1]'],
  ['/v1/rerank', { texts: ['\ud800'], query: 'x' }, 'texts[0]'],
  ['/v1/score', { text_1: '\ud800', text_2: ['x'] }],
  ['/v1/score', { text_2: ['x', '\ud800'], text_1: 'x' }, 'text_2[1]'],
];

/** Value at a path such as `tools[0].name` of a request. */
const valueAt = (body: unknown, path: string): unknown =>
  path
    .split(/[.[\]]+/)
    .filter((name) => name !== '')
    .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], body);

describe('an error names a field of the request that was sent', () => {
  const cases = WRONG.map(([path, fields, param = Object.keys(fields)[0] as string]) => ({ path, fields, param }));
  it.each(cases)('$path $param $fields', async ({ path, fields, param }) => {
    const body = { ...RIGHT[path], ...fields };
    const { status, json } = await ask(server.gateway, path, body);
    const error = typeof json?.error === 'object' ? json.error : json;
    const message: string = error?.message ?? error?.error;
    expect([status, error?.param, message]).toEqual([status === 404 ? 404 : 400, param, expect.stringMatching(/\S/)]);
    expect(valueAt(body, param)).not.toBeUndefined();
    // No name of the public API is left.
    expect(message).not.toMatch(
      /\b(sampling|stop|output|constraint|chat)\.[a-z]|template_variables|parameters_json|\btoken_ids\b/,
    );
  });
});

it('an input that is too long says by how much, as a prompt does', async () => {
  const { json } = await ask(server.gateway, '/v1/embeddings', { input: ['x', Array(400).fill(5)] });
  expect(json.error).toMatchObject({
    ...{ code: 'context_length_exceeded', type: 'exceed_context_size_error', param: 'input[1]' },
    ...{ n_prompt_tokens: 400, n_ctx: 256 },
  });
});
