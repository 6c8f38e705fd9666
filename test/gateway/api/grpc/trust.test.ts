import { createHash, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { connect } from 'node:http2';
import os from 'node:os';
import path from 'node:path';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { exportJWK, SignJWT } from 'jose';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { HealthClient } from '../../../../src/shared/generated/grpc/health/v1/health.js';
import {
  type GenerateStreamResponse,
  GetModelRequest,
  InferenceServiceService,
} from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../../../src/shared/grpc/status.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { request } from '../../../support/gateway.js';

const hash = (token: string) => createHash('sha256').update(token).digest('hex');
const TOKEN_LINES = `alice sha256:${hash('of-alice')}\nbob sha256:${hash('of-bob')}\n`;
const LONG_TOKENS = 3000;
const LONG = request({ text: 'the fox', stop: { maxTokens: LONG_TOKENS, ignoreEos: true } });
const SHORT = request({ text: 'the fox', stop: { maxTokens: 4, ignoreEos: true } });
const ISSUER = { jwtIssuer: 'https://issuer.example', jwtAudience: 'rocmforge' };

let folder: string;
let server: FakeGateway;
let tokenFile: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  tokenFile = path.join(folder, 'tokens');
  writeFileSync(tokenFile, TOKEN_LINES);
});
afterEach(() => server?.stop());

const bearing = (authorization?: string) => {
  const metadata = new Metadata();
  if (authorization !== undefined) metadata.set('authorization', authorization);
  return metadata;
};

/** Why a call was refused; OK otherwise. */
function asked(authorization?: string): Promise<string> {
  return new Promise((resolve) =>
    server.client.getModel(GetModelRequest.create(), bearing(authorization), (error) => resolve(reasonOf(error))),
  );
}

function reasonOf(error: ServiceError | null): string {
  return error === null ? 'OK' : `${status[error.code]} ${errorInfo(error)?.reason}`;
}

/** A generation under way: its first token has come. */
async function started(authorization: string, message = LONG) {
  const call = server.client.generateStream(message, bearing(authorization));
  let tokens = 0;
  const over = new Promise<string>((resolve) => {
    call.on('error', (error: ServiceError) => resolve(reasonOf(error)));
    call.on('end', () => resolve('OK'));
  });
  const first = new Promise<void>((resolve) =>
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'chunk') tokens += event.value.tokenIds.length;
      resolve();
    }),
  );
  await Promise.race([first, over]);
  return { call, over, tokens: () => tokens };
}

const metric = async (line: string) => {
  const text = await server.gateway.metrics.registry.metrics();
  return Number(
    text
      .split('\n')
      .find((found) => found.startsWith(`${line} `))
      ?.slice(line.length) ?? 0,
  );
};

it('a call is refused unless it has a token of the file, and counted by why', async () => {
  server = await startFakeGateway({ tokenFile });
  expect(await asked()).toBe('UNAUTHENTICATED CREDENTIAL_MISSING');
  for (const wrong of ['Bearer of-eve', `Bearer ${hash('of-alice')}`, 'Basic of-alice', 'Bearer', 'of-alice']) {
    expect(await asked(wrong)).toBe('UNAUTHENTICATED CREDENTIAL_INVALID');
  }
  expect([await asked('Bearer of-alice'), await asked('bearer  of-bob')]).toEqual(['OK', 'OK']);
  expect(await metric('rocmforge_credentials_refused_total{reason="CREDENTIAL_MISSING"}')).toBe(1);
  expect(await metric('rocmforge_credentials_refused_total{reason="CREDENTIAL_INVALID"}')).toBe(5);
});

it('a generation without a token is not queued, whatever it sends', async () => {
  server = await startFakeGateway({ tokenFile });
  const refused = await Promise.all(
    Array.from({ length: 20 }, () => started('Bearer no', SHORT).then(({ over }) => over)),
  );
  expect(new Set(refused)).toEqual(new Set(['UNAUTHENTICATED CREDENTIAL_INVALID']));
  expect(server.gateway.replica.active).toBe(0);
  expect(await metric('rocmforge_prompt_tokens_total')).toBe(0);
});

it('is refused before its request has come', async () => {
  server = await startFakeGateway({ tokenFile, listen: '127.0.0.1:0' });
  const session = connect(`http://127.0.0.1:${server.gateway.port}`);
  const stream = session.request({
    ':method': 'POST',
    ':path': InferenceServiceService.generateStream.path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  // Not a byte of the message follows.
  const headers = await new Promise<Record<string, unknown>>((resolve) => stream.once('response', resolve));
  expect(headers['grpc-status']).toBe(String(status.UNAUTHENTICATED));
  session.destroy();
});

it('health is open to everybody', async () => {
  server = await startFakeGateway({ tokenFile });
  const health = new HealthClient(server.address, credentials.createInsecure());
  const answer = await new Promise((resolve, reject) =>
    health.check({ service: '' }, (error, response) => (error ? reject(error) : resolve(response.status))),
  );
  health.close();
  expect(answer).toBe(1);
});

it('tokens that are added and taken away count within seconds, and generations under way go on', async () => {
  server = await startFakeGateway({ tokenFile });
  const running = await started('Bearer of-alice');
  const next = path.join(folder, 'next');
  writeFileSync(next, `carol sha256:${hash('of-carol')}\n`);
  renameSync(next, tokenFile);
  await expect.poll(() => asked('Bearer of-carol')).toBe('OK');
  expect(await asked('Bearer of-alice')).toBe('UNAUTHENTICATED CREDENTIAL_INVALID');
  expect(await running.over).toBe('OK');
  expect(running.tokens()).toBe(LONG_TOKENS);
});

it('a JWT of the right key, issuer and audience is taken until its key goes, a token beside it as well', async () => {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const others = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const jwksFile = path.join(folder, 'jwks.json');
  const publish = async (key: typeof keys) =>
    writeFileSync(jwksFile, JSON.stringify({ keys: [await exportJWK(key.publicKey)] }));
  await publish(keys);
  server = await startFakeGateway({ tokenFile, jwksFile, ...ISSUER });
  const jwt = new SignJWT({})
    .setProtectedHeader({ alg: 'ES256' })
    .setSubject('dave')
    .setIssuer(ISSUER.jwtIssuer)
    .setAudience(ISSUER.jwtAudience);
  const valid = `Bearer ${await jwt.setExpirationTime('1h').sign(keys.privateKey)}`;
  const expired = `Bearer ${await jwt.setExpirationTime('-1s').sign(keys.privateKey)}`;
  expect([await asked(valid), await asked('Bearer of-bob')]).toEqual(['OK', 'OK']);
  expect(await asked(expired)).toBe('UNAUTHENTICATED CREDENTIAL_EXPIRED');
  await publish(others);
  await expect.poll(() => asked(valid)).toBe('UNAUTHENTICATED CREDENTIAL_INVALID');
});

it('a principal over a limit is told which and when to come again; nothing is queued, and others are served', async () => {
  const limitsFile = path.join(folder, 'limits.json');
  const limits = { principals: { 'token:alice': { streams: 1, requests_per_minute: 4 } } };
  writeFileSync(limitsFile, JSON.stringify(limits));
  server = await startFakeGateway({ tokenFile, limitsFile });
  const running = await started('Bearer of-alice');
  const second = await started('Bearer of-alice');
  expect(await second.over).toBe('RESOURCE_EXHAUSTED RATE_LIMITED');
  expect(server.gateway.replica.active).toBe(1);
  expect(await (await started('Bearer of-bob', SHORT)).over).toBe('OK');
  const answers = [];
  for (let i = 0; i < 5; i++) answers.push(await asked('Bearer of-alice'));
  // One request went to the first generation; the second was refused before it counted.
  expect(answers.filter((answer) => answer === 'OK').length).toBe(3);
  expect(answers.at(-1)).toBe('RESOURCE_EXHAUSTED RATE_LIMITED');
  expect(await metric('rocmforge_rate_limited_total{limit="streams"}')).toBe(1);
  expect(await metric('rocmforge_rate_limited_total{limit="requests_per_minute"}')).toBe(2);
  // New limits hold while the generation goes on.
  writeFileSync(limitsFile, JSON.stringify({ default: { tokens_per_minute: 20 } }));
  await expect.poll(() => asked('Bearer of-alice')).toBe('OK');
  await expect.poll(async () => (await started('Bearer of-alice', SHORT)).over).toBe('RESOURCE_EXHAUSTED RATE_LIMITED');
  expect(await running.over).toBe('OK');
  expect(running.tokens()).toBe(LONG_TOKENS);
  expect(await metric('rocmforge_rate_limited_total{limit="tokens_per_minute"}')).toBeGreaterThanOrEqual(1);
});

it('a principal gets no more than its tokens and a step of each generation', async () => {
  const [perMinute, completions] = [120, 3];
  const limitsFile = path.join(folder, 'limits.json');
  writeFileSync(limitsFile, JSON.stringify({ default: { tokens_per_minute: perMinute } }));
  server = await startFakeGateway({ tokenFile, limitsFile, stepMs: 1 });
  const begun = performance.now();
  const message = request({
    text: 'the fox',
    n: completions,
    stop: { maxTokens: 1000, ignoreEos: true },
    sampling: {},
  });
  const running = await started('Bearer of-alice', message);
  const told = await server.gateway.metrics.registry.metrics();
  const promptTokens = Number(/^rocmforge_prompt_tokens_total\S* (\d+)$/m.exec(told)?.[1]);
  expect(promptTokens).toBeGreaterThan(0);
  await expect.poll(() => running.tokens() + promptTokens).toBeGreaterThanOrEqual(perMinute);
  // Bob's generation takes hundreds of steps; Alice's is paused meanwhile.
  expect(
    await (await started('Bearer of-bob', request({ text: 'the fox', stop: { maxTokens: 100, ignoreEos: true } })))
      .over,
  ).toBe('OK');
  const due = perMinute + ((performance.now() - begun) / 60_000) * perMinute;
  expect(running.tokens() + promptTokens - due).toBeLessThanOrEqual(completions);
  running.call.cancel();
});

it('clients with one token share one turn, whatever connections they come by', async () => {
  server = await startFakeGateway({ tokenFile, maxQueuedRequests: 4, maxSequences: 1, maxQueuedRequestsPerPeer: 1 });
  const running = await started('Bearer of-alice');
  const waiting = server.client.generateStream(LONG, bearing('Bearer of-alice'));
  waiting.on('error', () => undefined);
  waiting.resume();
  await expect.poll(() => server.gateway.replica.active).toBe(2);
  expect(await (await started('Bearer of-alice', SHORT)).over).toBe('RESOURCE_EXHAUSTED QUEUE_FULL');
  const bob = server.client.generateStream(SHORT, bearing('Bearer of-bob'));
  const answered = new Promise((resolve) => bob.on('end', resolve));
  bob.resume();
  running.call.cancel();
  waiting.cancel();
  await answered;
});
