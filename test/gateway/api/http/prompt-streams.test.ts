import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, eventsOf } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
});
afterAll(() => server.stop());

const COMPLETIONS = '/v1/completions';

it('a stream of several prompts has the answers of each, numbered through, and all of their tokens', async () => {
  const body = { prompt: ['one', 'two and more', 'three'], n: 2, max_tokens: 6, temperature: 0, seed: 1 };
  const { json } = await ask(server.gateway, COMPLETIONS, body);
  const { text } = await ask(server.gateway, COMPLETIONS, {
    ...body,
    stream: true,
    stream_options: { include_usage: true },
  });
  const events = eventsOf(text);
  expect(events.at(-1)).toBe('[DONE]');
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event));
  const texts = Array.from({ length: 6 }, () => '');
  const finished: number[] = [];
  for (const { index, text: piece, finish_reason } of chunks.flatMap(({ choices }) => choices)) {
    texts[index] += piece;
    if (finish_reason !== null) finished.push(index);
  }
  expect(texts).toEqual(json.choices.map((choice: { text: string }) => choice.text));
  expect(finished.toSorted()).toEqual([0, 1, 2, 3, 4, 5]);
  const { prompt_tokens, completion_tokens } = json.usage;
  expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens, completion_tokens });
});

it('a prompt that cannot run ends the stream with its error, or has a status of its own where it is the first', async () => {
  const long = 'word '.repeat(1000);
  const first = await ask(server.gateway, COMPLETIONS, { prompt: [long, 'one'], max_tokens: 2, stream: true });
  expect([first.status, first.json.error.code]).toEqual([400, 'context_length_exceeded']);
  const second = await ask(server.gateway, COMPLETIONS, { prompt: ['one', long], max_tokens: 2, stream: true });
  expect(second.status).toBe(200);
  expect(JSON.parse(eventsOf(second.text).at(-1)!)).toMatchObject({ error: { code: 'context_length_exceeded' } });
});

it('a call of many prompts, whole or as a stream, causes no warning of Node', async () => {
  const warnings: Error[] = [];
  const listen = (warning: Error) => warnings.push(warning);
  process.on('warning', listen);
  try {
    const prompt = Array.from({ length: 24 }, (_, i) => `prompt ${i}`);
    for (const stream of [false, true]) {
      const { status } = await ask(server.gateway, COMPLETIONS, { prompt, max_tokens: 2, stream });
      expect(status).toBe(200);
    }
    await new Promise(setImmediate);
    expect(warnings).toEqual([]);
  } finally {
    process.off('warning', listen);
  }
});
