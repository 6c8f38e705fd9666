import { afterAll, beforeAll, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, baseOf, eventsOf } from '../../../support/http.js';

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0', stepDelayMs: 10 });
});
afterAll(() => server.stop());

const body = {
  messages: [{ role: 'user', content: 'Tell me a story about a brave fox.' }],
  ...{ temperature: 0, max_tokens: 80, ignore_eos: true, stream: true },
};

interface Event {
  readonly choices: readonly { readonly delta?: { readonly content?: string } }[];
  readonly recovery?: { readonly state: string; readonly ms?: number };
}

/** Streams an answer and kills the executor once some text has come, as often as given. */
async function streamed(more: object, kills: number): Promise<readonly Event[]> {
  const response = await fetch(`${baseOf(server.gateway)}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, ...more }),
  });
  let text = '';
  let killed = 0;
  let events = 0;
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const came = text.split('"content":"').length;
    if (killed < kills && came > events + 8) {
      events = came;
      killed += 1;
      process.kill(server.gateway.executorPid()!, 'SIGKILL');
    }
  }
  expect(killed).toBe(kills);
  return eventsOf(text)
    .filter((event) => event !== '[DONE]')
    .map((event) => JSON.parse(event));
}

const textOf = (events: readonly Event[]) =>
  events.map(({ choices: [choice] }) => choice?.delta?.content ?? '').join('');

it('a stream reports each loss of its executor at its place, and when it continued', async () => {
  const undisturbed = await streamed({ return_recovery: true }, 0);
  expect(undisturbed.filter(({ recovery }) => recovery !== undefined)).toEqual([]);
  const events = await streamed({ return_recovery: true }, 3);
  expect(textOf(events)).toBe(textOf(undisturbed));
  const recoveries = events.flatMap(({ recovery }) => recovery ?? []);
  expect(recoveries.map(({ state }) => state)).toEqual(['lost', 'resumed', 'lost', 'resumed', 'lost', 'resumed']);
  for (const { state, ms } of recoveries) if (state === 'resumed') expect(ms).toBeGreaterThan(0);
  // No text comes between the two.
  const places = events.map(({ recovery }, i) => (recovery === undefined ? -1 : i)).filter((i) => i >= 0);
  const between = (from: number, to: number) => textOf(events.slice(from + 1, to));
  expect(between(places[0]!, places[1]!)).toBe('');
  expect(between(places[1]!, places[2]!)).not.toBe('');
});

it('other clients see nothing of it', async () => {
  const undisturbed = await streamed({}, 0);
  const events = await streamed({}, 1);
  expect(textOf(events)).toBe(textOf(undisturbed));
  expect(events.filter(({ recovery }) => recovery !== undefined)).toEqual([]);
});

it('the field is of type boolean, and no unknown one', async () => {
  const { status, json } = await ask(server.gateway, '/v1/chat/completions', { ...body, return_recovery: 'yes' });
  expect([status, json.error.param]).toEqual([400, 'return_recovery']);
  const { headers } = await ask(server.gateway, '/v1/chat/completions', {
    ...body,
    return_recovery: false,
    max_tokens: 1,
  });
  expect(headers.get('x-rocmforge-ignored-fields')).toBeNull();
});
