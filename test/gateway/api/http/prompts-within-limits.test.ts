import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import { writeRandomFamily, writeRandomModel } from '../../../support/random-model.js';

/** Fewer than any request below has prompts; calls are as many as a test makes. */
const STREAMS = 3;
const MANY = 8;

const limitsFile = (limits: object): string => {
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'limits.json');
  writeFileSync(file, JSON.stringify({ default: limits }));
  return file;
};
const servers: TestGateway[] = [];
const start = async (model: string, limits: object, stepDelayMs = 1): Promise<TestGateway> => {
  const options = { httpListen: '127.0.0.1:0', limitsFile: limitsFile(limits), stepDelayMs };
  const server = await startTestGateway(model, options);
  servers.push(server);
  return server;
};

let generator: TestGateway;
let embedder: TestGateway;
beforeAll(async () => {
  generator = await start(writeRandomModel(), { streams: STREAMS });
  embedder = await start(writeRandomFamily('qwen3', { metadata: { 'qwen3.pooling_type': 3 } }), { streams: STREAMS });
});
afterAll(() => Promise.all(servers.map((server) => server.stop())));

/** The response, and the most generations that ran at once until it came. */
async function sent(server: TestGateway, url: string, body: object) {
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, server.gateway.replica.active);
  }, 1);
  const { status, json } = await ask(server.gateway, url, body);
  clearInterval(watch);
  return { status, json, most };
}

const prompts = Array.from({ length: MANY }, (_, i) => [3 + i, 9, 5]);
const own = { max_tokens: 12, ignore_eos: true, temperature: 0 };

describe('a request with more prompts than its client may run at once', () => {
  it('of a completion runs them as the limit leaves, and all of them', async () => {
    const { status, json, most } = await sent(generator, '/v1/completions', { prompt: prompts, ...own });
    expect([status, json.choices.length]).toEqual([200, MANY]);
    expect(most).toBeLessThanOrEqual(STREAMS);
    const alone = await ask(generator.gateway, '/v1/completions', { prompt: prompts[MANY - 1], ...own });
    expect(json.choices[MANY - 1].text).toBe(alone.json.choices[0].text);
  });

  it('of /predict runs its instances so', async () => {
    const instances = prompts.map((prompt) => ({ '@requestFormat': 'completions', prompt, ...own }));
    const { status, json, most } = await sent(generator, '/predict', { instances });
    expect([status, json.predictions.map(({ object }: { object: string }) => object)]).toEqual([
      200,
      prompts.map(() => 'text_completion'),
    ]);
    expect(most).toBeLessThanOrEqual(STREAMS);
  });

  it('of embeddings runs its inputs so', async () => {
    const { status, json, most } = await sent(embedder, '/v1/embeddings', { input: prompts });
    expect([status, json.data?.length]).toEqual([200, MANY]);
    expect(most).toBeLessThanOrEqual(STREAMS);
    const alone = await ask(embedder.gateway, '/v1/embeddings', { input: prompts[MANY - 1] });
    expect(json.data[MANY - 1].embedding).toEqual(alone.json.data[0].embedding);
  });

  it('is rejected where none is left', async () => {
    const slow = await start(writeRandomModel(), { streams: STREAMS }, 200);
    // They end when they are given up: by themselves they would take far longer.
    const ended = new AbortController();
    const long = { n_predict: 200, ignore_eos: true };
    const running = Array.from({ length: STREAMS }, (_, i) =>
      ask(slow.gateway, '/completion', { prompt: [3 + i], ...long }, { signal: ended.signal }).catch(() => undefined),
    );
    await expect.poll(() => slow.gateway.replica.active, { interval: 1 }).toBe(STREAMS);
    const { status, json } = await ask(slow.gateway, '/v1/completions', { prompt: prompts, ...own });
    expect([status, json.error.code]).toEqual([429, 'RATE_LIMITED']);
    ended.abort();
    await Promise.all(running);
  });
});

it('a request is one of requests_per_minute, however many prompts, inputs or instances it has', async () => {
  const server = await start(writeRandomModel(), { requests_per_minute: 2 });
  const instances = prompts.map((prompt) => ({ '@requestFormat': 'completions', prompt, ...own }));
  expect((await ask(server.gateway, '/predict', { instances })).status).toBe(200);
  expect((await ask(server.gateway, '/v1/completions', { prompt: prompts, ...own })).status).toBe(200);
  const { status, json } = await ask(server.gateway, '/v1/completions', { prompt: 'a', ...own });
  expect([status, json.error.message]).toEqual([429, expect.stringContaining('request limit per minute (')]);
});

describe('requests whose prompts are more than the queue takes from one client', () => {
  const REQUESTS = 3;
  const CHOICES = 3;
  /** Its half, which further prompts fill, is not a multiple of the choices; the other takes the first prompts and the new request's. */
  const QUEUED = 2 * CHOICES * (REQUESTS + 1) + 2;

  it.each([
    [
      'embeddings',
      () => writeRandomFamily('qwen3', { metadata: { 'qwen3.pooling_type': 3 } }),
      '/v1/embeddings',
      'data',
    ],
    ['completions', () => writeRandomModel(), '/v1/completions', 'choices'],
  ] as const)('of %s all run, side by side, and leave room to a new request', async (_, model, url, list) => {
    const server = await startTestGateway(model(), {
      ...{ httpListen: '127.0.0.1:0', maxSequences: 2, maxQueuedRequests: 64, maxQueuedRequestsPerPeer: QUEUED },
      stepDelayMs: 1,
    });
    servers.push(server);
    const many = Array.from({ length: 2 * QUEUED }, (_, i) => [3 + (i % 40), 9, 5]);
    const body =
      list === 'data' ? { input: many } : { prompt: many, max_tokens: 2, n: CHOICES, ignore_eos: true, temperature: 0 };
    const all = Promise.all(Array.from({ length: REQUESTS }, () => ask(server.gateway, url, body)));
    await expect.poll(() => server.gateway.replica.active).toBeGreaterThan(0);
    const single = { ...body, ...(list === 'data' ? { input: [many[0]] } : { prompt: [many[0]] }) };
    const beside = await ask(server.gateway, url, single);
    expect([beside.status, beside.json.error]).toEqual([200, undefined]);
    const answers = await all;
    expect(answers.map(({ status, json }) => [status, json.error, json[list]?.length])).toEqual(
      answers.map(() => [200, undefined, many.length * (list === 'data' ? 1 : CHOICES)]),
    );
    expect(answers[1]?.json[list]).toEqual(answers[0]?.json[list]);
  });
});
