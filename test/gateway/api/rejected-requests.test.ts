import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Metadata } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { newToken } from '../../../src/gateway/trust/tokens.js';
import { logLevel, logSink, setLogLevel } from '../../../src/shared/log.js';
import type { LogLevel } from '../../../src/shared/log-levels.js';
import { type FakeGateway, startFakeGateway } from '../../support/fake-gateway.js';
import { generate, request } from '../../support/gateway.js';

const SECRET = 'the words of a prompt';
const levelBefore = logLevel();
let server: FakeGateway;
let lines: string[];
beforeEach(async () => {
  setLogLevel('info');
  lines = [];
  vi.spyOn(logSink, 'write').mockImplementation((line) => void lines.push(String(line)));
  server = await startFakeGateway({ httpListen: '127.0.0.1:0' });
});
afterEach(async () => {
  await server.stop();
  vi.restoreAllMocks();
  setLogLevel(levelBefore as LogLevel);
});
const rejected = () => lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'request rejected');
const post = async (route: string, body: unknown): Promise<number> => {
  const response = await fetch(`http://127.0.0.1:${server.gateway.httpServer?.port}${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return response.status;
};

it('a rejected request leaves a line with reason, field and client over every API, and nothing of what it says', async () => {
  const wrong = request({ text: SECRET, sampling: { topP: 7 }, requestId: 'order 7' });
  await expect(generate(server.client, wrong)).rejects.toThrow('top_p');
  expect(await post('/v1/completions', { prompt: SECRET, top_p: 7 })).toBe(400);
  expect(await post('/v1/chat/completions', { messages: SECRET })).toBe(400);
  expect(await post('/rocmforge.v1.InferenceService/Generate', { text: { text: SECRET }, sampling: { topP: 7 } })).toBe(
    400,
  );
  expect(await post('/rocmforge.v1.InferenceService/Generate', { [SECRET]: 1 })).toBe(400);
  expect(rejected()).toEqual([
    expect.objectContaining({
      ...{ level: 30, api: 'grpc', reason: 'INVALID_FIELD', field: 'sampling.top_p', requestId: 'order_7' },
    }),
    expect.objectContaining({ level: 30, api: 'http', reason: 'INVALID_FIELD', field: 'sampling.top_p' }),
    expect.objectContaining({ level: 30, api: 'http', reason: 'INVALID_FIELD', field: 'messages' }),
    expect.objectContaining({ level: 30, api: 'http', reason: 'INVALID_FIELD', field: 'sampling.top_p' }),
    expect.objectContaining({ level: 30, api: 'http', reason: 'MALFORMED_MESSAGE' }),
  ]);
  for (const { client } of rejected().slice(1)) expect(client).toBe('127.0.0.1');
  expect(lines.join('')).not.toContain(SECRET);
});

it('its line and that of an answered request have the id that the client finds in the response', async () => {
  const ask = (route: string, id: string, body: object) =>
    fetch(`http://127.0.0.1:${server.gateway.httpServer?.port}${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': id },
      body: JSON.stringify(body),
    });
  const completion = { prompt: SECRET, max_tokens: 3 };
  for (const [route, id, body] of [
    ['/v1/completions', 'client-1', { ...completion, top_p: 7 }],
    ['/v1/completions', 'client-2', completion],
    ['/v1/completions', 'two words', completion],
  ] as const) {
    const response = await ask(route, id, body);
    expect(response.status).toBe('top_p' in body ? 400 : 200);
    await response.text();
    const told = response.headers.get('x-request-id') as string;
    if (id !== 'two words') expect(told).toBe(id);
    await expect.poll(() => lines.map((line) => JSON.parse(line).httpRequestId)).toContain(told);
  }
});

it('a rejected call over gRPC has its id in a trailer and in its line, made up, given, or read by a thread', async () => {
  const rejection = (message: Parameters<typeof generate>[1]) =>
    generate(server.client, message).then(
      () => undefined,
      (error: { readonly metadata: Metadata }) => error.metadata.get('x-request-id')[0],
    );
  const wrong = { text: SECRET, sampling: { topP: 7 } };
  const long = { text: SECRET.repeat(40_000), stop: { maxTokens: 3 } };
  const ids = [
    await rejection(request(wrong)),
    await rejection(request({ ...wrong, requestId: 'given-1' })),
    await rejection(request({ ...long, requestId: 'given-2' })),
  ];
  expect(ids).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), 'given-1', 'given-2']);
  expect(rejected().map(({ requestId }) => requestId)).toEqual(ids);
});

it('one beyond a limit is named by the principal of its token, with the limit, over every API', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const { token, line } = newToken('batch');
  writeFileSync(path.join(folder, 'tokens'), `${line}\n`);
  writeFileSync(path.join(folder, 'limits'), JSON.stringify({ default: { requests_per_minute: 1 } }));
  await server.stop();
  const files = { tokenFile: path.join(folder, 'tokens'), limitsFile: path.join(folder, 'limits') };
  server = await startFakeGateway({ httpListen: '127.0.0.1:0', ...files });
  const authorization = `Bearer ${token}`;
  const models = () =>
    fetch(`http://127.0.0.1:${server.gateway.httpServer?.port}/v1/models`, { headers: { authorization } });
  expect([(await models()).status, (await models()).status]).toEqual([200, 429]);
  const metadata = new Metadata();
  metadata.set('authorization', authorization);
  const listed = new Promise((resolve) => server.client.listModels({}, metadata, resolve));
  expect(await listed).toMatchObject({ code: 8 });
  const stranger = await new Promise<{ readonly metadata?: Metadata } | null>((resolve) =>
    server.client.listModels({}, new Metadata(), resolve),
  );
  const id = stranger?.metadata?.get('x-request-id')[0];
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect(rejected().pop()).toMatchObject({ api: 'grpc', reason: 'CREDENTIAL_MISSING', requestId: id });
  lines.splice(
    lines.findLastIndex((line) => line.includes('CREDENTIAL_MISSING')),
    1,
  );
  const limited = { reason: 'RATE_LIMITED', client: 'token:batch', limit: 'requests_per_minute' };
  expect(rejected()).toMatchObject([
    { api: 'http', ...limited },
    { api: 'grpc', ...limited },
  ]);
});

it('what is served, and what its client cancels, leaves none', async () => {
  await generate(server.client, request({ text: SECRET, stop: { maxTokens: 3 } }));
  const call = server.client.generateStream(request({ text: SECRET, stop: { maxTokens: 900, ignoreEos: true } }));
  call.on('error', () => undefined);
  await new Promise((resolve) => call.once('data', resolve));
  call.cancel();
  expect(await post('/v1/completions', { prompt: SECRET, max_tokens: 3 })).toBe(200);
  await expect.poll(() => server.gateway.replica.active).toBe(0);
  expect(rejected()).toEqual([]);
});

it('a thousand rejected requests leave twenty lines and some, the others are counted', async () => {
  const wrong = request({ text: SECRET, sampling: { topP: 7 } });
  for (let round = 0; round < 10; round++) {
    await Promise.allSettled(Array.from({ length: 100 }, () => generate(server.client, wrong)));
  }
  const told = rejected();
  expect(told.length).toBeGreaterThanOrEqual(20);
  expect(told.length).toBeLessThan(100);
});
