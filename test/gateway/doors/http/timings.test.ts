import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, eventsOf } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const body = { prompt: [259, 260, 261], n_predict: 4, ignore_eos: true };

it.each(['/completion', '/v1/completions'])(
  '%s tells its times, and with each event where it is asked to',
  async (path) => {
    const whole = await ask(server.gateway, path, body);
    expect(whole.json.timings).toMatchObject({ prompt_n: 3, predicted_n: 4, cache_n: 0 });
    const told = async (timings_per_token: boolean) => {
      const { text } = await ask(server.gateway, path, { ...body, stream: true, timings_per_token });
      const events = eventsOf(text).filter((event) => event !== '[DONE]');
      return events.map((event) => JSON.parse(event).timings?.predicted_n).slice(0, 4);
    };
    expect((await told(true))[0]).toBeGreaterThan(0);
    expect((await told(false))[0]).toBeUndefined();
  },
);

it('llama.cpp’s form tells what was asked for and taken', async () => {
  const asked = { ...body, seed: 7, temperature: 0.5, response_fields: [] };
  const { json } = await ask(server.gateway, '/completion', asked);
  expect(json.generation_settings).toMatchObject({ seed: 7, temperature: 0.5, n_predict: 4, top_k: 40 });
});
