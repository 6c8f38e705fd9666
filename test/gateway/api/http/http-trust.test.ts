import { createHash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import os from 'node:os';
import path from 'node:path';
import { create, createFileRegistry, type DescService, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError, createClient } from '@connectrpc/connect';
import { createConnectTransport, createGrpcWebTransport } from '@connectrpc/connect-node';
import { afterEach, describe, expect, it } from 'vitest';
import type { Gateway } from '../../../../src/gateway/main.js';
import { readDescriptorSet } from '../../../../src/shared/grpc/descriptors.js';
import { hasOpenssl, makeAuthority } from '../../../support/certificates.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, baseOf, rawAnswer } from '../../../support/http.js';

const files = readDescriptorSet().map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: files }));
const service = registry.getService('rocmforge.v1.InferenceService') as DescService;

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const tokenFile = path.join(folder, 'tokens');
writeFileSync(tokenFile, `alice sha256:${createHash('sha256').update('of-alice').digest('hex')}\n`);

let server: FakeGateway | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

const completion = { prompt: [259, 260, 261], max_tokens: 4, ignore_eos: true };
const alice = { headers: { authorization: 'Bearer of-alice' } };
const CONNECT = '/rocmforge.v1.InferenceService/Generate';
const metric = async (name: string) => (await server!.gateway.metrics.registry.getSingleMetricAsString(name)) ?? '';

describe('a credential that is demanded', () => {
  it.each([
    ['none', undefined, 'CREDENTIAL_MISSING'],
    ['a wrong one', 'Bearer of-mallory', 'CREDENTIAL_INVALID'],
    ['one of another kind', 'Basic YTpi', 'CREDENTIAL_INVALID'],
  ])('%s is refused in each form, counted, and nothing of it is queued', async (_what, authorization, reason) => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    const options = authorization === undefined ? {} : { headers: { authorization } };
    const { gateway } = server;
    for (const [route, body] of [
      ['/v1/models', undefined],
      ['/v1/completions', completion],
      ['/v1/chat/completions', { messages: [] }],
    ] as const) {
      const { status, headers, json } = await ask(gateway, route, body, options);
      expect([status, json.error.code, json.error.type]).toEqual([401, reason, 'authentication_error']);
      expect(headers.get('www-authenticate')).toBe('Bearer');
    }
    const llama = await ask(gateway, '/completion', completion, options);
    expect([llama.status, llama.json.error.code, llama.json.error.reason]).toEqual([401, 401, reason]);
    const connect = await ask(gateway, CONNECT, { tokens: { ids: [259] } }, options);
    expect([connect.status, connect.json.code]).toEqual([401, 'unauthenticated']);
    expect(await metric('rocmforge_credentials_refused_total')).toMatch(new RegExp(`reason="${reason}"\\} 5`));
    expect(gateway.replica.counts.running + gateway.replica.counts.waiting).toBe(0);
  });

  it('is one: two of them are refused', async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    const two = 'Authorization: Bearer of-alice\r\nAuthorization: Bearer of-mallory';
    const answer = await rawAnswer(
      server.gateway,
      `GET /v1/models HTTP/1.1\r\nHost: x\r\n${two}\r\nConnection: close\r\n\r\n`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  });

  it('is taken by Anthropic’s header, too', async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    const asked = (key: string) => ask(server!.gateway, '/v1/models', undefined, { headers: { 'x-api-key': key } });
    expect([(await asked('of-alice')).status, (await asked('of-mallory')).status]).toEqual([200, 401]);
  });

  it('lets pages of other origins ask; without one none may', async () => {
    const preflight = {
      method: 'OPTIONS',
      headers: {
        origin: 'https://chat.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    };
    const allowed = async (gateway: Gateway) => {
      const { headers } = await ask(gateway, '/v1/completions', undefined, preflight);
      const methods = headers.get('access-control-allow-methods');
      expect(methods).toBe(gateway === server?.gateway ? 'GET, POST, DELETE, OPTIONS' : null);
      return [headers.get('access-control-allow-origin'), headers.get('access-control-allow-headers')];
    };
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    expect(await allowed(server.gateway)).toEqual(['https://chat.example', 'authorization']);
    const open = await startFakeGateway({ httpListen: '127.0.0.1:0' });
    expect(await allowed(open.gateway)).toEqual([null, null]);
    await open.stop();
  });

  it.each([
    [undefined, true],
    [tokenFile, true],
    [undefined, false],
  ])('lets pages of listed origins ask, with a token (%s) or without, and no others', async (file, isLocalTaken) => {
    const listed = ['https://chat.example', ...(isLocalTaken ? ['localhost'] : [])];
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', corsOrigins: listed, tokenFile: file });
    const { gateway } = server;
    const answers = async (origin: string) => {
      const asked = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' };
      const before = await ask(gateway, '/v1/models', undefined, { method: 'OPTIONS', headers: { origin, ...asked } });
      expect([before.status, before.headers.get('vary')]).toEqual([200, 'origin']);
      const name = 'access-control-allow-origin';
      const after = await ask(gateway, '/v1/models', undefined, { headers: { origin } });
      expect(after.headers.get(name)).toBe(before.headers.get(name));
      return before.headers.get(name);
    };
    expect(await answers('https://chat.example')).toBe('https://chat.example');
    for (const own of ['http://localhost', 'http://127.0.0.1:3000', 'https://[::1]:3000']) {
      expect(await answers(own)).toBe(isLocalTaken ? own : null);
    }
    const alike = [
      'https://chat.example.evil.example',
      'https://chat.example:8443',
      'http://chat.example',
      'https://chat',
    ];
    const local = ['http://notlocalhost', 'http://localhost.evil.example'];
    for (const other of ['https://evil.example', ...alike, ...local, 'null']) {
      expect(await answers(other)).toBe(null);
    }
  });

  it.each([
    ['Connect', createConnectTransport],
    ['gRPC-Web', createGrpcWebTransport],
  ])('is missed by %s in its own form, with its details, whatever the body', async (_name, transport) => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    const client = createClient(
      service,
      transport({ baseUrl: baseOf(server.gateway), httpVersion: '1.1' }),
    ) as unknown as {
      // biome-ignore lint/suspicious/noExplicitAny: messages of a service that is known at run time alone
      generate(message: object): Promise<any>;
      // biome-ignore lint/suspicious/noExplicitAny: as above
      generateStream(message: object): AsyncIterable<any>;
    };
    const message = { input: { case: 'text', value: { text: 'x'.repeat(3_000_000) } } };
    const calls = [
      client.generate(message),
      (async () => {
        for await (const _ of client.generateStream(message));
      })(),
    ];
    for (const call of calls) {
      const error = ConnectError.from(await call.catch((thrown: unknown) => thrown));
      expect(error.code).toBe(Code.Unauthenticated);
      expect(error.findDetails(registry.getMessage('google.rpc.ErrorInfo')!)).toMatchObject([
        { reason: 'CREDENTIAL_MISSING' },
      ]);
    }
  });

  it('lets its bearer in, and everybody to the page and to health', async () => {
    server = await startFakeGateway({ httpListen: '127.0.0.1:0', tokenFile });
    const { gateway } = server;
    expect((await ask(gateway, '/v1/completions', completion, alice)).json.usage.completion_tokens).toBe(4);
    expect(
      (await ask(gateway, CONNECT, { tokens: { ids: [259] }, stop: { maxTokens: 2, ignoreEos: true } }, alice)).status,
    ).toBe(200);
    expect((await ask(gateway, '/')).status).toBe(200);
    expect((await ask(gateway, '/health')).json).toEqual({ status: 'ok' });
  });
});

it('a limit that is reached is told with 429 and when to try again', async () => {
  const limitsFile = path.join(folder, 'limits.json');
  writeFileSync(limitsFile, JSON.stringify({ default: { requests_per_minute: 2 } }));
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', limitsFile });
  for (let i = 0; i < 2; i++) expect((await ask(server.gateway, '/v1/completions', completion)).status).toBe(200);
  const { status, headers, json } = await ask(server.gateway, '/v1/completions', completion);
  expect([status, json.error.code, json.error.type]).toEqual([429, 'RATE_LIMITED', 'rate_limit_error']);
  expect(json.error.limit).toBe('requests_per_minute');
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
  expect(headers.get('x-should-retry')).toBe('true');
  const never = await ask(server.gateway, '/v1/nowhere', completion);
  expect([never.status, never.headers.get('x-should-retry')]).toEqual([404, 'false']);
});

describe.skipIf(!hasOpenssl)('TLS', () => {
  const authority = hasOpenssl ? makeAuthority('authority') : undefined!;
  const foreign = hasOpenssl ? makeAuthority('stranger') : undefined!;
  const own = authority?.issue('gateway');

  /** The status of `GET /v1/models`, or why there is none. */
  const get = (client?: { readonly certPem: Buffer; readonly keyPem: Buffer }) =>
    new Promise<string>((resolve) => {
      const { port } = server!.gateway.httpServer!;
      const certificate = client && { cert: client.certPem, key: client.keyPem };
      const options = {
        port,
        host: '127.0.0.1',
        path: '/v1/models',
        ca: authority.caPem,
        agent: false,
        ...certificate,
      };
      const call = httpsRequest(options, (answer) => {
        answer.resume();
        resolve(String(answer.statusCode));
      });
      call.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      call.end();
    });

  it('is spoken by the HTTP server with the certificate of the gRPC server, and plain HTTP is not', async () => {
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      listen: '127.0.0.1:0',
      tlsCert: own.cert,
      tlsKey: own.key,
    });
    expect(await get()).toBe('200');
    await expect(ask(server.gateway, '/v1/models')).rejects.toThrow();
    expect(await get()).toBe('200');
  });

  it('demands a certificate of its own authority where it is told to', async () => {
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      listen: '127.0.0.1:0',
      tlsCert: own.cert,
      tlsKey: own.key,
      tlsClientCa: authority.ca,
    });
    expect(await get(authority.issue('alice'))).toBe('200');
    for (const refused of [undefined, foreign.issue('alice'), authority.issue('alice', { expired: true })]) {
      expect(await get(refused)).not.toBe('200');
    }
  });

  it.each([
    ['401, without a token', 7 << 20, undefined, 401, 'CREDENTIAL_MISSING'],
    ['413, with one', 7 << 20, 'Bearer of-alice', 413, 'MESSAGE_TOO_LARGE'],
  ])('tells a sender of 7 MiB its %s, as a typed answer', async (_what, bytes, authorization, status, reason) => {
    server = await startFakeGateway({
      httpListen: '127.0.0.1:0',
      listen: '127.0.0.1:0',
      tlsCert: own.cert,
      tlsKey: own.key,
      tokenFile,
    });
    const { port } = server.gateway.httpServer!;
    const post = (headers: Record<string, string | number>, chunks: number) =>
      new Promise<{ readonly status: number; readonly code: string }>((resolve, reject) => {
        const options = { port, host: '127.0.0.1', path: '/v1/completions', ca: authority.caPem, agent: false };
        const call = httpsRequest({ ...options, method: 'POST', headers }, (answer) => {
          let text = '';
          answer.on('data', (data) => {
            text += data;
          });
          answer.on('end', () => resolve({ status: answer.statusCode ?? 0, code: JSON.parse(text).error.code }));
        });
        call.on('error', reject);
        const chunk = Buffer.alloc(bytes / chunks, 'x');
        for (let i = 0; i < chunks; i++) call.write(chunk);
        call.end();
      });
    const headers = { 'content-type': 'application/json', ...(authorization && { authorization }) };
    const expected = { status, code: reason };
    // Said to be so long, and not.
    expect(await post({ ...headers, 'content-length': bytes }, 1)).toEqual(expected);
    expect(await post(headers, 64)).toEqual(expected);
    expect(server.gateway.replica.counts.running + server.gateway.replica.counts.waiting).toBe(0);
  });
});
