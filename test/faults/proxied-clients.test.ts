import { mkdtempSync, writeFileSync } from 'node:fs';
import { type ClientRequest, request as httpRequest } from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { type ClientReadableStream, credentials, Metadata } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newToken } from '../../src/gateway/trust/tokens.js';
import {
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  InferenceServiceClient,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { request } from '../support/gateway.js';

const TOKENS = 900;
const [alice, mallory] = [newToken('alice'), newToken('mallory')];

/** Headers that a proxy sends along for one client. */
type Client = Readonly<Record<string, string>>;
const ADDRESSES: readonly [Client, Client] = [
  { 'x-forwarded-for': '203.0.113.1' },
  { 'x-forwarded-for': '203.0.113.2' },
];
/** Two clients of one office, and so of one address. */
const PRINCIPALS: readonly [Client, Client] = [
  { 'x-forwarded-for': '203.0.113.1', authorization: `Bearer ${alice.token}` },
  { 'x-forwarded-for': '203.0.113.1', authorization: `Bearer ${mallory.token}` },
];

describe.each([
  ['addresses', ADDRESSES, false],
  ['principals', PRINCIPALS, true],
])('behind a trusted proxy cancels count by %s', (_what, [victim, hostile], hasTokens) => {
  let server: FakeGateway;
  /** The proxy's one connection. */
  let proxy: InferenceServiceClient;
  beforeEach(async () => {
    const tokenFile = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'tokens');
    writeFileSync(tokenFile, `${alice.line}\n${mallory.line}\n`);
    server = await startFakeGateway({
      ...{ listen: '127.0.0.1:0', httpListen: '127.0.0.1:0', trustedProxies: ['127.0.0.1'] },
      ...(hasTokens && { tokenFile }),
    });
    proxy = new InferenceServiceClient(`127.0.0.1:${server.gateway.port}`, credentials.createInsecure());
  });
  afterEach(async () => {
    proxy.close();
    await server.stop();
  });

  const metadataOf = (client: Client): Metadata => {
    const metadata = new Metadata();
    for (const [name, value] of Object.entries(client)) metadata.set(name, value);
    return metadata;
  };
  const generation = (maxTokens: number) => request({ text: 'the fox', stop: { maxTokens, ignoreEos: true } });
  /** Tokens of a client's answer, or the reason for which it has none. */
  const answer = (client: Client, message: GenerateStreamRequest): Promise<number | string> => {
    let tokens = 0;
    return new Promise((resolve) => {
      const call = proxy.generateStream(message, metadataOf(client));
      call.on('data', ({ event }: GenerateStreamResponse) => {
        if (event?.$case === 'chunk') tokens += event.value.tokenIds.length;
      });
      call.on('error', (error: Parameters<typeof errorInfo>[0]) => resolve(errorInfo(error)?.reason ?? 'none'));
      call.on('end', () => resolve(tokens));
    });
  };

  it('over gRPC: whoever cancels is refused, and others are served on the same connection', async () => {
    const own = answer(victim, generation(TOKENS));
    const { calls: guard, connections, floods } = server.gateway.server;
    await expect.poll(() => guard.openCalls).toBe(1);
    const calls: ClientReadableStream<GenerateStreamResponse>[] = [];
    for (let i = 0; i < 260; i++) {
      const call = proxy.generateStream(generation(TOKENS), metadataOf(hostile));
      call.on('error', () => undefined);
      calls.push(call);
    }
    await expect.poll(() => guard.openCalls).toBe(261);
    for (const call of calls) call.cancel();
    await expect.poll(() => guard.openCalls).toBe(1);
    expect(await answer(hostile, generation(3))).toBe('RATE_LIMITED');
    expect(await answer(victim, generation(3))).toBe(3);
    expect(await own).toBe(TOKENS);
    expect([floods.counters.floods, connections.counters.held, connections.open]).toEqual([0, 0, 1]);
  });

  /** A request over a connection of its own, as proxies without keep-alive make. */
  const send = (client: Client): ClientRequest => {
    const headers = { ...client, 'content-type': 'application/json' };
    const port = server.gateway.httpServer?.port;
    const to = { host: '127.0.0.1', port, method: 'POST', path: '/v1/completions', headers, agent: false };
    return httpRequest(to).on('error', () => undefined);
  };
  const bodyOf = (tokens: number) => JSON.stringify({ prompt: 'the fox', max_tokens: tokens });
  const statusOf = (client: Client): Promise<number | undefined> =>
    new Promise((resolve) => {
      const sent = send(client).once('response', (response) => {
        resolve(response.statusCode);
        response.resume();
      });
      sent.once('error', () => resolve(undefined));
      sent.end(bodyOf(3));
    });

  it('over HTTP: connections that were given up are held against nobody, and their client is refused', async () => {
    const httpServer = server.gateway.httpServer;
    // A busy machine cancels more slowly than an idle one, and calls come back to the client meanwhile.
    let status: number | undefined;
    for (let round = 0; round < 40 && status !== 429; round++) {
      const given = Array.from({ length: 50 }, () => send(hostile));
      for (const sent of given) sent.end(bodyOf(TOKENS));
      await expect.poll(() => httpServer?.unanswered, { interval: 5 }).toBe(50);
      for (const sent of given) sent.destroy();
      await expect.poll(() => httpServer?.unanswered, { interval: 5 }).toBe(0);
      status = await statusOf(hostile);
    }
    expect(status).toBe(429);
    expect(await statusOf(victim)).toBe(200);
    expect(httpServer?.connections.counters.held).toBe(0);
  });
});
