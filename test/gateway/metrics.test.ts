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

const long = request({ text: 'the fox', stop: { maxTokens: 2000, ignoreEos: true } });

/** The value of a metric, such as `rocmforge_request_total{model_name="random",outcome="stop"}`. */
async function metric(name: string): Promise<number> {
  const text = await server.gateway.metrics.registry.metrics();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${name} `))
      ?.slice(name.length) ?? Number.NaN,
  );
}

async function cancelledStream(message = long): Promise<void> {
  const call = server.client.generateStream(message);
  call.on('error', () => undefined);
  await new Promise((resolve) => call.once('data', resolve));
  call.cancel();
  await expect.poll(() => server.gateway.replica.active).toBe(0);
}

it('counts a cancelled request as ended, once, with its duration', async () => {
  await cancelledStream();
  expect(await metric('rocmforge_request_total{model_name="random",outcome="cancelled"}')).toBe(1);
  expect(await metric('rocmforge_e2e_request_latency_seconds_count{model_name="random"}')).toBe(1);
});

it('counts a cancelled unary request', async () => {
  const call = server.client.generate(long, () => undefined);
  await expect.poll(() => server.gateway.replica.active).toBe(1);
  call.cancel();
  await expect.poll(() => server.gateway.replica.active).toBe(0);
  expect(await metric('rocmforge_request_total{model_name="random",outcome="cancelled"}')).toBe(1);
});

it('does not count a request that ended as cancelled when its client goes away', async () => {
  await generate(server.client, request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } }));
  server.client.close();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(await metric('rocmforge_request_total{model_name="random",outcome="length"}')).toBe(1);
  expect(await metric('rocmforge_e2e_request_latency_seconds_count{model_name="random"}')).toBe(1);
});

it('gives the timer of a time limit up with the request', async () => {
  const timeLimitMs = 3_600_000;
  const begun = vi.spyOn(globalThis, 'setTimeout');
  const ended = vi.spyOn(globalThis, 'clearTimeout');
  try {
    await cancelledStream({ ...long, timeLimitMs });
    const timers = begun.mock.results.filter((_, i) => begun.mock.calls[i]?.[1] === timeLimitMs);
    expect(timers).toHaveLength(1);
    expect(ended.mock.calls.map(([timer]) => timer)).toContain(timers[0]?.value);
  } finally {
    vi.restoreAllMocks();
  }
});

it('counts a refused request by its reason', async () => {
  const calls: { cancel(): void }[] = [];
  const start = () => calls.push(server.client.generateStream(long).on('error', () => undefined));
  for (let i = 0; i < 2; i++) start();
  await expect.poll(() => server.gateway.replica.scheduler?.runningCount).toBe(2);
  for (let i = 0; i < 3; i++) start();
  await expect.poll(() => server.gateway.replica.scheduler?.waitingCount).toBe(3);
  await expect(generate(server.client, long)).rejects.toThrow(
    /wait already.*may have \d+ sequences \(--max-queued-requests/,
  );
  expect(await metric('rocmforge_request_total{model_name="random",outcome="QUEUE_FULL"}')).toBe(1);
  for (const call of calls) call.cancel();
  await expect.poll(() => server.gateway.replica.active).toBe(0);
});

it.each([
  'connections_refused',
  'connections_held',
  'connections_closed',
  'calls_refused',
  'slow_senders',
  'slow_readers',
])('tells of what the server turned away: %s', async (name) => {
  expect(await metric(`rocmforge_${name}_total{api="grpc"}`)).toBe(0);
  const { connections, calls } = server.gateway.server;
  for (const counters of [connections.counters, calls.counters]) {
    for (const key of Object.keys(counters)) Object.assign(counters, { [key]: 3 });
  }
  expect(await metric(`rocmforge_${name}_total{api="grpc"}`)).toBe(3);
});

it('tells of lines that the log dropped and faults that were not kept', async () => {
  expect(await metric('rocmforge_log_lines_dropped_total')).toBe(0);
  expect(await metric('rocmforge_faults_not_kept_total')).toBe(0);
});

it('tells how long sequences waited for a slot', async () => {
  // The clock that waits are measured by stands still, but for what this test moves it.
  let nowMs = performance.now();
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  try {
    const running = [1, 2].map(() => server.client.generateStream(long).on('error', () => undefined));
    await expect.poll(() => server.gateway.replica.scheduler?.runningCount).toBe(2);
    const short = request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } });
    const waiting = [3, 4].map(() => generate(server.client, short));
    await expect.poll(() => server.gateway.replica.scheduler?.waitingCount).toBe(2);
    nowMs += 400;
    for (const call of running) call.cancel();
    await Promise.all(waiting);
  } finally {
    clock.mockRestore();
  }
  expect(await metric('rocmforge_request_queue_time_seconds_count{model_name="random"}')).toBe(4);
  expect(await metric('rocmforge_request_queue_time_seconds_bucket{le="0.1",model_name="random"}')).toBe(2);
  expect(await metric('rocmforge_request_queue_time_seconds_sum{model_name="random"}')).toBeCloseTo(0.8, 3);
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

it('tells how full the fuller kind of KV blocks is', async () => {
  await server.stop();
  // A window of 16 and a step of 512 rows lie in 34 blocks at most.
  server = await startFakeGateway({ stepMs: 5, claims: { window: 16, windowBlocks: 35 } });
  const call = server.client.generateStream(long);
  call.on('error', () => undefined);
  await new Promise((resolve) => call.once('data', resolve));
  const { kvBlocks, freeKvBlocks } = server.gateway.replica.counts;
  expect(1 - freeKvBlocks / kvBlocks).toBeLessThan(1 / 34);
  expect(await metric('rocmforge_kv_cache_usage_perc')).toBeGreaterThanOrEqual(1 / 34);
  call.cancel();
  await expect.poll(() => metric('rocmforge_kv_cache_usage_perc')).toBe(0);
});

it('tells how many snapshots of recurrent states there are, and how many of them can be found', async () => {
  expect(await metric('rocmforge_state_snapshots')).toBe(0);
  await server.stop();
  server = await startFakeGateway({ stepMs: 5, claims: { recurrent: true, stateSnapshots: 4 } });
  expect(await metric('rocmforge_state_snapshots')).toBe(4);
  expect(await metric('rocmforge_state_snapshots_kept')).toBe(0);
  const tokens = Array.from({ length: 300 }, (_, i) => 260 + (i % 20));
  const message = request({ tokens, stop: { maxTokens: 3, ignoreEos: true } });
  await generate(server.client, message);
  expect(await metric('rocmforge_state_snapshots_kept')).toBe(1);
  expect(await metric('rocmforge_prefix_cache_hit_tokens_total')).toBe(0);
  await generate(server.client, message);
  expect(await metric('rocmforge_prefix_cache_hit_tokens_total')).toBe(288);
});

it('tells the size of a KV block and how many there are, as labels', async () => {
  const { kvBlocks } = server.gateway.replica.counts;
  expect(kvBlocks).toBeGreaterThan(0);
  expect(await metric(`rocmforge_cache_config_info{block_size="16",num_gpu_blocks="${kvBlocks}"}`)).toBe(1);
});

it('tells which model requests were for, from the start', async () => {
  for (const name of ['prompt_tokens_total', 'generation_tokens_total', 'time_to_first_token_seconds_count']) {
    expect(await metric(`rocmforge_${name}{model_name="random"}`)).toBe(0);
  }
  await generate(server.client, request({ text: 'the', stop: { maxTokens: 3, ignoreEos: true } }));
  expect(await metric('rocmforge_generation_tokens_total{model_name="random"}')).toBe(3);
  expect(await metric('rocmforge_inter_token_latency_seconds_count{model_name="random"}')).toBe(2);
});
