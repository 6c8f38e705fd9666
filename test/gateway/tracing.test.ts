import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Metadata } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask } from '../support/http.js';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

interface Told {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly from: bigint;
  readonly to: bigint;
}

/** Collects what comes by OTLP over HTTP, as JSON. */
const told: Told[] = [];
let collector: Server;
let server: TestGateway;

beforeAll(async () => {
  collector = createServer((call, answer) => {
    let body = '';
    call.on('data', (data) => {
      body += data;
    });
    call.on('end', () => {
      for (const { scopeSpans } of JSON.parse(body).resourceSpans) for (const { spans } of scopeSpans) collect(spans);
      answer.setHeader('content-type', 'application/json');
      answer.end('{}');
    });
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  const otlpEndpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
  server = await startTestGateway('models/demo.gguf', { otlpEndpoint, httpListen: '127.0.0.1:0', stepDelayMs: 5 });
});
afterAll(() => {
  collector.close();
});

// biome-ignore lint/suspicious/noExplicitAny: OTLP's JSON
function collect(spans: any[]): void {
  for (const { name, traceId, spanId, parentSpanId, attributes, startTimeUnixNano, endTimeUnixNano } of spans) {
    const named = attributes.map(({ key, value }: { key: string; value: object }) => [key, Object.values(value)[0]]);
    const [from, to] = [BigInt(startTimeUnixNano), BigInt(endTimeUnixNano)];
    told.push({ name, traceId, spanId, parentSpanId, attributes: Object.fromEntries(named), from, to });
  }
}

it('tells a collector of each request: its queue, prefill and decode, and what was computed again', async () => {
  const metadata = new Metadata();
  metadata.set('traceparent', `00-${TRACE}-${SPAN}-01`);
  const stop = { maxTokens: 60, ignoreEos: true };
  await new Promise<void>((resolve, reject) => {
    const call = server.client.generateStream(request({ text: 'Once upon a time', stop }), metadata);
    let chunks = 0;
    call.on('data', () => {
      chunks += 1;
      if (chunks === 10) process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    });
    call.on('end', resolve).on('error', reject);
  });
  await ask(server.gateway, '/v1/completions', { prompt: 'Once', top_p: 9 });
  await server.stop();

  const [whole, refused] = told.filter(({ name }) => name === 'generate');
  expect(whole).toMatchObject({ traceId: TRACE, parentSpanId: SPAN });
  expect(whole?.attributes).toMatchObject({
    'gen_ai.request.model': 'demo',
    'gen_ai.usage.output_tokens': 60,
    'rocmforge.outcome': 'length',
  });
  const parts = told.filter(({ parentSpanId }) => parentSpanId === whole?.spanId);
  expect(parts.map(({ name }) => name).sort()).toEqual(['decode', 'prefill', 'queue', 'recompute']);
  const part = (name: string) => parts.find((one) => one.name === name) as Told;
  expect(part('recompute').attributes).toMatchObject({ 'rocmforge.interruption': 'replay' });
  // The SDK tells beginnings in whole milliseconds.
  const begins = ['queue', 'prefill', 'decode', 'recompute'].map((name) => part(name).from);
  expect(begins).toEqual([...begins].sort((x, y) => Number(x - y)));
  for (const { from, to } of parts) expect(to).toBeGreaterThanOrEqual(from);
  // A request that is refused is told, too, and nobody's prompt is.
  expect(refused?.attributes).toMatchObject({ 'rocmforge.outcome': 'INVALID_FIELD' });
  expect(JSON.stringify(told, (_, value) => (typeof value === 'bigint' ? String(value) : value))).not.toContain('Once');
});

it('counts spans, and those that the collector took', async () => {
  const counted = async (name: string) => {
    const text = await server.gateway.metrics.registry.getSingleMetricAsString(`rocmforge_${name}_total`);
    return Number(/^\S+ (\d+)$/m.exec(text.replace(/^#.*$/gm, ''))?.[1]);
  };
  // The server has ended, and sent what was left.
  expect(await counted('spans')).toBeGreaterThan(0);
  expect(await counted('spans_exported')).toBe(await counted('spans'));
});
