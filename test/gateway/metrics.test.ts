import { existsSync, mkdtempSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

let server: FakeGateway;
beforeEach(async () => {
  server = await startFakeGateway({ stepMs: 5, maxSequences: 2, maxQueuedRequests: 3 });
});
afterEach(() => server.stop());

const long = request({ text: 'the fox', timeLimitMs: 400, stop: { maxTokens: 2000, ignoreEos: true } });

/** The value of a metric, such as `rocmforge_request_total{outcome="stop"}`. */
async function metric(name: string): Promise<number> {
  const text = await server.gateway.metrics.registry.metrics();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length) ?? Number.NaN,
  );
}

async function cancelledStream(): Promise<void> {
  const call = server.client.generateStream(long);
  call.on('error', () => undefined);
  await new Promise((resolve) => call.once('data', resolve));
  call.cancel();
  await expect.poll(() => server.gateway.engine.active).toBe(0);
}

it('counts a cancelled request as ended, once, with its duration', async () => {
  await cancelledStream();
  expect(await metric('rocmforge_request_total{outcome="cancelled"}')).toBe(1);
  expect(await metric('rocmforge_e2e_request_latency_seconds_count')).toBe(1);
});

it('counts a cancelled unary request', async () => {
  const call = server.client.generate(long, () => undefined);
  await expect.poll(() => server.gateway.engine.active).toBe(1);
  call.cancel();
  await expect.poll(() => server.gateway.engine.active).toBe(0);
  expect(await metric('rocmforge_request_total{outcome="cancelled"}')).toBe(1);
});

it('does not count a request that ended as cancelled when its client goes away', async () => {
  await generate(server.client, request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } }));
  server.client.close();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await metric('rocmforge_request_total{outcome="length"}')).toBe(1);
  expect(await metric('rocmforge_e2e_request_latency_seconds_count')).toBe(1);
});

it('gives the timer of a time limit up with the request', async () => {
  const expire = vi.spyOn(server.gateway.engine, 'expire');
  await cancelledStream();
  await new Promise((resolve) => setTimeout(resolve, 600));
  expect(expire).not.toHaveBeenCalled();
});

it('counts a refused request by its reason', async () => {
  const running = [1, 2].map(() => generate(server.client, long));
  await expect.poll(() => server.gateway.engine.schedulerState?.runningCount).toBe(2);
  running.push(...[1, 2, 3].map(() => generate(server.client, long)));
  await expect.poll(() => server.gateway.engine.schedulerState?.waitingCount).toBe(3);
  await expect(generate(server.client, long)).rejects.toThrow('wait already');
  expect(await metric('rocmforge_request_total{outcome="QUEUE_FULL"}')).toBe(1);
  await Promise.all(running);
});

it('tells how long sequences waited for a slot', async () => {
  await Promise.all(
    [1, 2, 3, 4].map(() => generate(server.client, request({ text: 'the', stop: { maxTokens: 40, ignoreEos: true } }))),
  );
  expect(await metric('rocmforge_request_queue_time_seconds_count')).toBe(4);
  // Two began at once, two waited for the 40 steps of 5 ms of those.
  expect(await metric('rocmforge_request_queue_time_seconds_bucket{le="0.1"}')).toBe(2);
  expect(await metric('rocmforge_request_queue_time_seconds_sum')).toBeGreaterThan(0.3);
});

it('gives everything back when its metrics cannot be served, as when it is told to', async () => {
  const taken = createServer();
  const port = await new Promise<number>((resolve) =>
    taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port)),
  );
  const listen = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'gateway.sock')}`;
  const started = startFakeGateway({ listen, metricsListen: `127.0.0.1:${port}` });
  await expect(started).rejects.toMatchObject({ reason: 'ADDRESS_IN_USE' });
  expect(existsSync(listen.slice('unix:'.length))).toBe(false);
  taken.close();
});
