import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  const model = { chatTemplate: '{{ messages[0].content }}' };
  server = await startFakeGateway({ script: spelled('Hello.'), model, httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const messages = [{ role: 'user', content: 'q' }];
const chat = { '@requestFormat': 'chatCompletions', messages, max_tokens: 20 };
const predict = (body: unknown) => ask(server.gateway, '/predict', body as object);

describe('a prediction', () => {
  it('is the response of its instance’s own path, in the order of instances', async () => {
    const { status, json } = await predict({
      instances: [
        chat,
        { '@requestFormat': 'completions', prompt: 'q', max_tokens: 3 },
        { '@requestFormat': 'completion', prompt: 'q', n_predict: 3, seed: 9 },
        { '@requestFormat': 'messages', messages, max_tokens: 20 },
        { '@requestFormat': 'responses', input: 'q', max_output_tokens: 20, store: false },
      ],
    });
    expect(status).toBe(200);
    expect(json.predictions).toMatchObject([
      { object: 'chat.completion', choices: [{ message: { role: 'assistant', content: 'Hello.' } }] },
      { object: 'text_completion', choices: [{ text: 'Hel' }] },
      { content: 'Hel', stop: true, generation_settings: { seed: 9 } },
      { type: 'message', content: [{ type: 'text', text: 'Hello.' }] },
      { object: 'response', status: 'completed' },
    ]);
  });

  it('is an error where its instance cannot run, and the others run', async () => {
    const { status, json } = await predict({
      instances: [{ ...chat, temperature: -1 }, chat, { ...chat, '@requestFormat': 'toString' }, 5, { messages }],
    });
    expect(status).toBe(200);
    const [wrong, right, ...rest] = json.predictions;
    expect(wrong.error).toMatchObject({ param: 'temperature', type: 'invalid_request_error' });
    expect(right.choices[0].message.content).toBe('Hello.');
    expect(rest.map(({ error }: { error: { param: string } }) => error.param)).toEqual([
      'instances[2].@requestFormat',
      'instances[3]',
      'instances[4].@requestFormat',
    ]);
    const told = await server.gateway.metrics.registry.metrics();
    expect(told).toMatch(/^rocmforge_rejected_requests_total\{api="http",reason="INVALID_FIELD"\} 4$/m);
  });

  it('is never a stream, which is reported like other ignored fields', async () => {
    const { json, headers } = await predict({ instances: [{ ...chat, stream: true, odd: 1 }], parameters: {} });
    expect(json.predictions[0].object).toBe('chat.completion');
    const ignored = headers.get('x-rocmforge-ignored-fields')?.split(', ');
    expect(ignored?.toSorted()).toEqual(['instances[].odd', 'instances[].stream', 'parameters']);
  });

  it('needs instances, and at most 64', async () => {
    for (const body of [{}, { instances: {} }, { instances: Array.from({ length: 65 }, () => chat) }]) {
      const { status, json } = await predict(body);
      expect([status, json.error.param]).toEqual([400, 'instances']);
    }
    expect((await predict({ instances: [] })).json).toEqual({ predictions: [] });
    expect((await predict({ instances: [{ ...chat, user: 'x'.repeat(256 << 10) }] })).status).toBe(413);
  });
});
