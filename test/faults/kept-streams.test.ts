import { afterEach, describe, expect, it } from 'vitest';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask, baseOf } from '../support/http.js';
import { CHAT_TEMPLATE, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const model = writeRandomModel({ contextLength: 1024, chatTemplate: CHAT_TEMPLATE, seed: 1 });
const NAME = 'conversation/1::chat:Q8_0';
const AT = `/v1/stream?conv_id=${encodeURIComponent(NAME)}`;

let server: TestGateway;
afterEach(() => server.stop());
async function start(more: Partial<GatewayOptions> & { readonly stepDelayMs?: number } = {}): Promise<void> {
  server = await startTestGateway(model, {
    ...{ modelName: 'chat', httpListen: '127.0.0.1:0', maxRestarts: 100 },
    ...more,
  });
}

const headers = { 'content-type': 'application/json', 'x-conversation-id': NAME };
const body = (tokens: number) => ({
  ...{ model: 'chat', stream: true, temperature: 0, ignore_eos: true, max_tokens: tokens, request_id: 'r' },
  messages: [{ role: 'user', content: 'the fox' }],
});
/** The text of a stream: tokens that came together are one event. */
const contentOf = (text: string): string =>
  text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .map((line) => JSON.parse(line.slice('data: '.length)).choices[0]?.delta.content ?? '')
    .join('');
const active = () => server.gateway.models[0]?.router.active;

/** Begins a stream, reads about so many bytes of it, and goes away. @returns what was read */
async function begin(tokens: number, bytes: number): Promise<string> {
  const gone = new AbortController();
  const answer = await fetch(`${baseOf(server.gateway)}/v1/chat/completions`, {
    ...{ method: 'POST', headers, body: JSON.stringify(body(tokens)), signal: gone.signal },
  });
  let read = Buffer.alloc(0);
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  while (read.length < bytes) {
    const { value, done } = await reader.read();
    if (done) break;
    read = Buffer.concat([read, value]);
  }
  gone.abort();
  await reader.closed.catch(() => undefined);
  return read.toString();
}

describe('a kept stream', () => {
  it('is the same for a client that goes and comes back while executors are killed', async () => {
    await start({ stepDelayMs: 5 });
    const whole = (await ask(server.gateway, '/v1/chat/completions', body(200))).text;
    let read = await begin(200, 1000);
    expect(read.length).toBeLessThan(whole.length / 2);
    for (let kill = 0; kill < 2; kill++) {
      const killed = server.gateway.executorPid();
      process.kill(killed as number, 'SIGKILL');
      await whenever(() => ![undefined, killed].includes(server.gateway.executorPid()));
    }
    const rest = await ask(server.gateway, `${AT}&from=${Buffer.byteLength(read)}`);
    expect([rest.status, rest.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
    read += rest.text;
    expect(contentOf(read)).toBe(contentOf(whole));
    expect(read).toMatch(/"finish_reason":"length".*data: \[DONE\]\n\n$/s);
    expect((await ask(server.gateway, AT)).text).toBe(read);
    expect(server.gateway.models[0]?.router.counts.executors).toBe(3);
  });

  it('continues when its client has gone, and ends when the client says so', async () => {
    await start({ stepDelayMs: 20 });
    await begin(500, 500);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(active()).toBe(1);
    const reading = ask(server.gateway, AT);
    await new Promise((resolve) => setTimeout(resolve, 100));
    const stopped = await ask(server.gateway, AT, undefined, { method: 'DELETE' });
    expect([stopped.status, stopped.text]).toEqual([204, '']);
    expect((await reading).text).toContain('the stream was cancelled by DELETE /v1/stream');
    await whenever(() => active() === 0);
    for (const method of ['GET', 'DELETE']) {
      const { status, json } = await ask(server.gateway, AT, undefined, { method });
      expect([status, json.error.code]).toEqual([404, 'STREAM_NOT_FOUND']);
    }
  });

  it('is not waited for by a drain without readers', async () => {
    await start({ stepDelayMs: 20 });
    await begin(500, 500);
    await whenever(() => active() === 1);
    expect(await server.gateway.drain(5000)).toBe(true);
  });

  it('is asked for again while its model is loaded, and then is there', async () => {
    await start({ load: 'on-demand' });
    const gone = new AbortController();
    const lost = fetch(`${baseOf(server.gateway)}/v1/chat/completions`, {
      ...{ method: 'POST', headers, body: JSON.stringify(body(4)), signal: gone.signal },
    }).catch(() => undefined);
    await whenever(() => active() === 1);
    gone.abort();
    await lost;
    const early = await ask(server.gateway, AT);
    expect([early.status, early.json.error.code, early.headers.get('retry-after')]).toEqual([
      503,
      'MODEL_LOADING',
      '1',
    ]);
    await whenever(() => server.gateway.models[0]?.router.isLoaded === true);
    expect((await ask(server.gateway, AT)).text).toMatch(/^(: waiting\n\n)?data: .*data: \[DONE\]\n\n$/s);
  });

  it('that is stopped while its model is loaded ends with an error', async () => {
    await start({ load: 'on-demand' });
    const waiting = ask(server.gateway, '/v1/chat/completions', body(4), { headers });
    await whenever(() => active() === 1);
    expect((await ask(server.gateway, AT, undefined, { method: 'DELETE' })).status).toBe(204);
    const { status, json } = await waiting;
    expect([status, json.error.code]).toEqual([400, 'STREAM_CANCELLED']);
    await whenever(() => active() === 0);
  });

  it('is refused by its fields', async () => {
    await start();
    const param = async (path: string) => (await ask(server.gateway, path)).json.error.param;
    expect(await param('/v1/stream')).toBe('conv_id');
    expect(await param(`${AT}&from=-1`)).toBe('from');
    const refused = await ask(server.gateway, '/v1/chat/completions', { ...body(4), top_p: 2 }, { headers });
    expect(refused.status).toBe(400);
    const tooLong = { ...body(4), messages: [{ role: 'user', content: 'fox '.repeat(5000) }] };
    expect((await ask(server.gateway, '/v1/chat/completions', tooLong, { headers })).status).toBe(400);
    expect((await ask(server.gateway, AT)).status).toBe(404);
  });
});
