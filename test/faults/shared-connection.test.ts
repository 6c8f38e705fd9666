import type { ClientReadableStream } from '@grpc/grpc-js';
import { credentials } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  type GenerateStreamResponse,
  InferenceServiceClient,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';
import { FRAME, opens, PING, RawClient, reset } from '../support/raw-http2.js';

const VICTIM_TOKENS = 900;
const CANCELS = 260;

let server: FakeGateway;
/** One channel, and so one connection, for all callers: as behind a proxy. */
let client: InferenceServiceClient;
beforeEach(async () => {
  server = await startFakeGateway({ listen: '127.0.0.1:0' });
  client = new InferenceServiceClient(`127.0.0.1:${server.gateway.port}`, credentials.createInsecure());
});
afterEach(async () => {
  client.close();
  await server.stop();
});
const guards = () => server.gateway.server;
const generation = (maxTokens: number) => request({ text: 'the fox', stop: { maxTokens, ignoreEos: true } });

it('lets the streams of others go on when somebody cancels 260 calls at once on the same connection', async () => {
  const victim = generate(client, generation(VICTIM_TOKENS));
  await expect.poll(() => server.gateway.server.calls.openCalls).toBe(1);
  const calls: ClientReadableStream<GenerateStreamResponse>[] = [];
  for (let i = 0; i < CANCELS; i++) {
    const call = client.generateStream(generation(VICTIM_TOKENS));
    call.on('error', () => undefined);
    calls.push(call);
  }
  await expect.poll(() => guards().calls.openCalls).toBe(1 + CANCELS);
  for (const call of calls) call.cancel();
  expect((await victim).tokenIds).toHaveLength(VICTIM_TOKENS);
  expect(guards().floods.counters.floods).toBe(1);
  // The next call goes over another connection.
  expect((await generate(client, generation(3))).tokenIds).toHaveLength(3);
});

it('begins nothing more on a connection that resets too much, and closes it when its last stream ends', async () => {
  const raw = new RawClient(server.gateway.port);
  raw.send(opens(1));
  await expect.poll(() => guards().calls.openCalls).toBe(1);
  for (let stream = 3; stream < 1000; stream += 2) raw.send(opens(stream), reset(stream));
  await expect.poll(() => raw.count(FRAME.GOAWAY)).toBe(1);
  await expect.poll(() => guards().calls.openCalls).toBe(1);
  const { started } = guards().calls.callsOf(`127.0.0.1:${raw.socket.localPort}`);
  raw.send(opens(1001), opens(1003));
  raw.send(reset(1001), reset(1003), PING);
  await expect.poll(() => raw.count(FRAME.PING)).toBe(1);
  expect(raw.isClosed).toBe(false);
  expect(guards().calls.callsOf(`127.0.0.1:${raw.socket.localPort}`).started).toBe(started);
  raw.send(reset(1));
  await expect.poll(() => raw.isClosed).toBe(true);
  expect(guards().floods.counters.floods).toBe(1);
});
