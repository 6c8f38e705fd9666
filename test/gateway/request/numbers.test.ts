import { afterAll, beforeAll, expect, it } from 'vitest';
import { generate, request, startTestGateway, type TestGateway } from '../../support/gateway.js';
import { ask } from '../../support/http.js';

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
});
afterAll(async () => {
  // The executor never saw any of them.
  expect(server.gateway.executorEpoch()).toBe(1);
  await server.stop();
});

const messages = [{ role: 'user', content: 'x' }];
/** In a body that is read in a thread, too. */
const padded = (body: string) => body.replace('{', `{${' '.repeat(40_000)}`);

const FIELDS = [
  ['temperature', '1e39'],
  ['temperature', '1e300'],
  ['temperature', '3.5e38'],
  ['repetition_penalty', '1e39'],
  ['logit_bias', '{"5":1e39}'],
  ['logit_bias', '{"5":-1e39}'],
  ['logit_bias', '{"5":1e300}'],
  ['logit_bias', '{"4294967396":1}'],
] as const;

it.each(FIELDS)('%s of %s, which the executor could not be sent, is refused over HTTP', async (field, value) => {
  const body = JSON.stringify({ messages, max_tokens: 2 }).replace('{', `{"${field}":${value},`);
  for (const sent of [body, padded(body)]) {
    const { status, json } = await ask(server.gateway, '/v1/chat/completions', sent);
    expect([status, json.error.param]).toEqual([400, field]);
  }
});

it.each(['temperature', 'repetitionPenalty'])('%s of infinity is refused over gRPC', async (field) => {
  const call = generate(
    server.client,
    request({ text: 'x', sampling: { [field]: Number.POSITIVE_INFINITY }, stop: { maxTokens: 2 } }),
  );
  await expect(call).rejects.toThrow('must be in');
});

it('the largest float is taken', async () => {
  const most = 3.4028234663852886e38;
  const body = { messages, max_tokens: 2, temperature: most, repetition_penalty: most };
  expect((await ask(server.gateway, '/v1/chat/completions', body)).status).toBe(200);
});
