import { constants } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { credentials } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { GetModelRequest, InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { logSink, setLogLevel } from '../../src/shared/log.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';
import { END_STREAM, FRAME, frame, literal, opens, PING, RawClient, reset, SETTINGS } from '../support/raw-http2.js';

let server: FakeGateway;
let raw: RawClient;
const lines: { readonly msg: string; readonly client?: string; readonly flood?: string }[] = [];
beforeEach(async () => {
  lines.length = 0;
  setLogLevel('warn');
  vi.spyOn(logSink, 'write').mockImplementation((line) => void lines.push(JSON.parse(String(line))));
  server = await startFakeGateway({ listen: '127.0.0.1:0', maxStreamsPerConnection: 100 });
  raw = new RawClient(server.gateway.port);
});
afterEach(async () => {
  raw.socket.destroy();
  await server.stop();
  vi.restoreAllMocks();
  setLogLevel('silent');
});
/** Kinds of the floods that the log tells of, each with its client. */
const toldFloods = () =>
  lines
    .filter(({ flood }) => flood !== undefined)
    .map(({ client, flood }) => [/^127\.0\.0\.1:\d+$/.test(client ?? ''), flood]);
const floods = () => server.gateway.server.floods.counters.floods;
/** True if a new client is served. */
const isServed = async () => {
  const client = new InferenceServiceClient(`127.0.0.1:${server.gateway.port}`, credentials.createInsecure());
  const { tokenIds } = await generate(client, request({ text: 'the fox', stop: { maxTokens: 3, ignoreEos: true } }));
  client.close();
  return tokenIds.length;
};

it('tells clients that they may open 100 streams', async () => {
  await expect.poll(() => raw.count(FRAME.SETTINGS)).toBeGreaterThan(0);
  const settings = raw.frames.filter(({ type, flags }) => type === FRAME.SETTINGS && flags === 0);
  const values = settings.flatMap(({ payload }) =>
    Array.from({ length: payload.length / 6 }, (_, i) => [
      payload.readUInt16BE(6 * i),
      payload.readUInt32BE(6 * i + 2),
    ]),
  );
  expect(values).toContainEqual([constants.NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 100]);
});

it.each([
  ['pings', PING],
  ['settings', SETTINGS],
])('ends a connection that floods with %s, in a word, and no other', async (_what, flood) => {
  raw.send(...Array(150).fill(flood));
  await expect.poll(() => raw.isClosed).toBe(true);
  expect(raw.goaway).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  expect(floods()).toBe(1);
  expect(toldFloods()).toEqual([[true, 'control frames']]);
  expect(await isServed()).toBe(3);
});

it('takes the pings of a client that pings at most twice a second, after a burst of them', async () => {
  raw.send(...Array(90).fill(PING));
  await expect.poll(() => raw.count(FRAME.PING)).toBe(90);
  expect([raw.isClosed, floods()]).toEqual([false, 0]);
});

it('takes a ping after each message, as clients send that measure their bandwidth', async () => {
  let stream = 1;
  for (let i = 0; i < 400; i++) {
    const message = Buffer.concat([
      Buffer.alloc(5),
      Buffer.from(GetModelRequest.encode(GetModelRequest.create()).finish()),
    ]);
    raw.send(opens(stream), frame(FRAME.DATA, END_STREAM, stream, message));
    await expect.poll(() => raw.count(FRAME.DATA), { interval: 1 }).toBe(i + 1);
    raw.send(PING);
    await expect.poll(() => raw.count(FRAME.PING), { interval: 1 }).toBe(i + 1);
    stream += 2;
  }
  expect([raw.isClosed, floods()]).toEqual([false, 0]);
});

it('ends a connection that opens streams and resets them at once, where nothing else is open on it', async () => {
  for (let stream = 1; stream < 1000; stream += 2) raw.send(opens(stream), reset(stream));
  await expect.poll(() => raw.isClosed).toBe(true);
  expect(raw.goaway).toBe(constants.NGHTTP2_NO_ERROR);
  expect(floods()).toBe(1);
  expect(toldFloods()).toEqual([[true, 'resets']]);
  await expect.poll(() => server.gateway.server.calls.openCalls).toBe(0);
  expect(await isServed()).toBe(3);
});

it('ends a header of CONTINUATION frames without end while it is small, without a word of ours', async () => {
  raw.send(opens(1, 0));
  const more = frame(FRAME.CONTINUATION, 0, 1, literal('x-more', 'v'.repeat(100)));
  let sent = 0;
  while (!raw.isClosed && sent < 100_000) {
    raw.send(...Array<Uint8Array>(50).fill(more));
    sent += 50;
    await new Promise((resolve) => setImmediate(resolve));
  }
  await expect.poll(() => raw.isClosed).toBe(true);
  // nghttp2's own answer.
  expect(raw.goaway).toBe(constants.NGHTTP2_INTERNAL_ERROR);
  expect(sent).toBeLessThan(100_000);
  expect(server.gateway.server.calls.openCalls).toBe(0);
  expect(await isServed()).toBe(3);
});

it.each([
  [
    'resets',
    (client: RawClient) => Array.from({ length: 500 }, (_, i) => client.send(opens(2 * i + 1), reset(2 * i + 1))),
  ],
  [
    'continuations',
    (client: RawClient) =>
      client.send(opens(1, 0), ...Array<Uint8Array>(500).fill(frame(FRAME.CONTINUATION, 0, 1, literal('x', 'v')))),
  ],
])('keeps whoever floods with %s again and again from coming again, and no other', async (_what, flood) => {
  const { connections } = server.gateway.server;
  // At once: one violation a second is forgotten, and a busy machine takes longer than that for one after the other.
  const clients = Array.from({ length: 5 }, () => new RawClient(server.gateway.port));
  await expect.poll(() => clients.every((client) => client.count(FRAME.SETTINGS) > 0)).toBe(true);
  for (const client of clients) flood(client);
  await expect.poll(() => clients.every(({ isClosed }) => isClosed)).toBe(true);
  expect(connections.counters.held).toBe(0);
  const begun = performance.now();
  const next = new RawClient(server.gateway.port);
  flood(next);
  await expect.poll(() => next.isClosed).toBe(true);
  expect(performance.now() - begun).toBeGreaterThan(990);
  expect([connections.counters.held, next.frames]).toEqual([1, []]);
  // A connected client is served on, and so is another address.
  raw.send(PING);
  await expect.poll(() => raw.count(FRAME.PING)).toBe(1);
  const other = connectSocket({ port: server.gateway.port, host: '127.0.0.1', localAddress: '127.0.0.2' });
  other.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), SETTINGS]));
  await new Promise((resolve) => other.once('data', resolve));
  other.destroy();
});
