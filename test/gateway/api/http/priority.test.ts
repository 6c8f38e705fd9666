import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask } from '../../../support/http.js';

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', maxPriority: 3, maxSequences: 1, stepMs: 2 });
});
afterAll(() => server.stop());

const PATHS = [
  ['/v1/completions', { prompt: 'a', max_tokens: 3, ignore_eos: true }],
  ['/completion', { prompt: 'a', n_predict: 3, ignore_eos: true }],
] as const;

it.each(PATHS)('runs the lower value first in %s, as vLLM does', async (path, body) => {
  const order: number[] = [];
  const sent = async (priority: number) => {
    const { status } = await ask(server.gateway, path, { ...body, priority });
    expect(status).toBe(200);
    order.push(priority);
  };
  // Those that follow wait for the one slot until this one is given up, which would take far longer.
  const ended = new AbortController();
  const long = { ...body, max_tokens: 4000, n_predict: 4000 };
  const first = ask(server.gateway, path, long, { signal: ended.signal }).catch(() => undefined);
  await expect.poll(() => server.gateway.replica.active, { interval: 1 }).toBe(1);
  const waiting = [sent(7), sent(2), sent(-1)];
  await expect.poll(() => server.gateway.replica.active, { interval: 1 }).toBe(4);
  ended.abort();
  await Promise.all([first, ...waiting]);
  expect(order).toEqual([-1, 2, 7]);
});

it.each(PATHS)('rejects in %s what would run before --max-priority', async (path, body) => {
  const { status, json } = await ask(server.gateway, path, { ...body, priority: -4 });
  expect([status, json.error.param]).toEqual([400, 'priority']);
  expect(json.error.message).toContain('--max-priority');
});
