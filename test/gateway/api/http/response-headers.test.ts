import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, baseOf } from '../../../support/http.js';

const TEMPLATE = '{% for m in messages %}{{ m.content }}{% endfor %}';
const messages = [{ role: 'user', content: 'q' }];
const CHAT = '/v1/chat/completions';
const options = { modelName: 'm', httpListen: '127.0.0.1:0', model: { chatTemplate: TEMPLATE } };

let server: FakeGateway;
let strict: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ script: spelled('ok'), ...options });
  strict = await startFakeGateway({ script: spelled('ok'), ...options, strictFields: true });
});
afterAll(async () => {
  await server.stop();
  await strict.stop();
});

const IGNORED = 'x-rocmforge-ignored-fields';

it('ignored fields are named in a header, whole and streamed, of small and of large requests', async () => {
  for (const content of ['q', 'q'.repeat(40_000)]) {
    for (const stream of [false, true]) {
      const body = { messages: [{ role: 'user', content, mood: 'good' }], max_tokens: 1, invented: 1, stream };
      const { headers } = await ask(server.gateway, CHAT, body);
      expect(headers.get(IGNORED)).toBe('messages[].mood, invented');
      const refused = await ask(strict.gateway, CHAT, body);
      expect([refused.status, refused.json.error.param]).toEqual([400, 'messages[0].mood']);
    }
  }
  const { headers } = await ask(server.gateway, '/tokenize', { content: 'a', invented: 1 });
  expect(headers.get(IGNORED)).toBe('invented');
  expect(
    (await ask(server.gateway, CHAT, { messages, max_tokens: 1, tool_prompt: null })).headers.get(IGNORED),
  ).toBeNull();
});

it('each answer has the id of its request: the client’s where it is one word, else a new one', async () => {
  const idOf = async (path: string, headers: Record<string, string>) =>
    (await ask(server.gateway, path, undefined, { headers })).headers.get('x-request-id');
  expect(await idOf('/v1/models', { 'x-request-id': 'abc-1' })).toBe('abc-1');
  expect(await idOf('/nowhere', { 'x-request-id': 'abc-2' })).toBe('abc-2');
  for (const invalid of ['a b', 'x'.repeat(129)]) {
    expect(await idOf('/v1/models', { 'x-request-id': invalid })).toMatch(/^[\da-f-]{36}$/);
  }
});

it('another path is told those that are supported, in the form of its API', async () => {
  const openai = await ask(server.gateway, '/v1/embedding', { input: 'x' });
  expect([openai.status, openai.json.error.message]).toEqual([404, expect.stringContaining('/v1/chat/completions')]);
  const anthropic = await ask(server.gateway, '/v1/messages/batches', {});
  expect(anthropic).toMatchObject({ status: 404, json: { type: 'error', error: { type: 'not_found_error' } } });
});

it('a preflight is told of --cors-origins where it is off', async () => {
  const headers = { origin: 'http://a.example', 'access-control-request-method': 'POST' };
  const { status, json } = await ask(server.gateway, CHAT, undefined, { method: 'OPTIONS', headers });
  expect([status, json.error.message]).toEqual([405, expect.stringContaining('--cors-origins')]);
});

it('vLLM’s form of /tokenize counts a prompt and a conversation', async () => {
  const { json } = await ask(server.gateway, '/tokenize', { prompt: 'ab', add_special_tokens: false });
  expect(json).toMatchObject({ count: json.tokens.length, max_model_len: 4096 });
  const chat = await ask(server.gateway, '/tokenize', { messages: [{ role: 'user', content: 'ab' }] });
  expect(chat.json.tokens.slice(-json.count)).toEqual(json.tokens);
});

it('the headers of a stream that waits come before its first token', async () => {
  const slow = await startFakeGateway({ script: spelled('ok'), ...options, stepMs: 2500 });
  try {
    const response = await fetch(`${baseOf(slow.gateway)}${CHAT}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages, max_tokens: 1, stream: true }),
    });
    expect((await response.text()).startsWith(': waiting\n\ndata: ')).toBe(true);
  } finally {
    await slow.stop();
  }
});
