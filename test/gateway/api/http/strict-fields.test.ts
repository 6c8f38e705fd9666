import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, eventsOf } from '../../../support/http.js';

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const messages = [{ role: 'user', content: 'x' }];
const CHAT = '/v1/chat/completions';

it.each([
  ['two limits of tokens that differ', { messages, max_tokens: 2, max_completion_tokens: 3 }, 'max_tokens'],
  ['a list for a token id', { messages, logit_bias: [[[100], 5]] }, 'logit_bias'],
  ['more messages than are taken', { messages: Array(5000).fill({}) }, 'messages'],
])('%s is refused by name', async (_what, body, param) => {
  const { status, json } = await ask(server.gateway, CHAT, body);
  expect([status, json.error.param]).toEqual([400, param]);
});

it('two limits of tokens that agree are one', async () => {
  const body = { messages, max_tokens: 2, max_completion_tokens: 2, ignore_eos: true };
  expect((await ask(server.gateway, CHAT, body)).json.usage.completion_tokens).toBe(2);
});

it('fields of an answer that are asked for come under their paths, and of a stream with its end', async () => {
  const body = { prompt: 'Once', n_predict: 2, response_fields: ['content', 'timings/predicted_n'] };
  const whole = await ask(server.gateway, '/completion', body);
  expect(Object.keys(whole.json)).toEqual(['content', 'timings/predicted_n']);
  const { text } = await ask(server.gateway, '/completion', { ...body, stream: true });
  expect(JSON.parse(eventsOf(text).at(-1)!)).toEqual({ content: '', 'timings/predicted_n': 2 });
});

it('each of several echoed completions has its prompt’s log probabilities, where its text begins', async () => {
  const body = { prompt: 'Once upon', max_tokens: 4, n: 2, echo: true, logprobs: 1 };
  const { json } = await ask(server.gateway, '/v1/completions', body);
  for (const { text, logprobs } of json.choices) {
    expect(logprobs.tokens.join('')).toBe(text);
    const begins = logprobs.text_offset.map((at: number, i: number) => text.startsWith(logprobs.tokens[i], at));
    expect(begins.every(Boolean)).toBe(true);
  }
});

it('several prompts are checked before any of them runs, and their log probabilities are bounded together', async () => {
  const { gateway } = server;
  const counted = async () => await gateway.metrics.registry.getSingleMetricAsString('rocmforge_prompt_tokens_total');
  const before = await counted();
  const long = 'the fox '.repeat(3000);
  expect((await ask(gateway, '/v1/completions', { prompt: ['Once', long], max_tokens: 4 })).status).toBe(400);
  expect(await counted()).toBe(before);
  const many = { prompt: Array(64).fill('Once'), max_tokens: 500, n: 16, logprobs: 1 };
  expect((await ask(gateway, '/v1/completions', many)).json.error.param).toBe('prompt');
});
