import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Metadata, Server, ServerCredentials, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RocmForgeClient, RocmForgeClientError } from '../../src/client/index.js';
import { RocmForgeError } from '../../src/shared/errors.js';
import { InferenceServiceService } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { toStatus } from '../../src/shared/grpc/status.js';

/** Responses of the server by a model's name. */
const ANSWERS: Readonly<Record<string, object>> = {
  field: toStatus(new RocmForgeError('INVALID_FIELD', 'top_p is 2', { field: 'sampling.top_p', more: 'pairs' })),
  busy: toStatus(new RocmForgeError('QUEUE_FULL', 'too many wait', { retry_delay_ms: '1500' })),
  plain: { code: status.UNAVAILABLE, details: 'no details' },
  garbled: { code: status.INTERNAL, details: 'garbled', metadata: withDetails(Buffer.from([0xff, 0xff, 0xff])) },
};

function withDetails(bytes: Buffer): Metadata {
  const metadata = new Metadata();
  metadata.set('grpc-status-details-bin', bytes);
  return metadata;
}

let server: Server;
let client: RocmForgeClient;
const tokens: string[] = [];
beforeAll(async () => {
  server = new Server();
  server.addService(InferenceServiceService, {
    getModel: (call: { request: { model: string }; metadata: Metadata }, done: (error: object | null) => void) => {
      tokens.push(...call.metadata.get('authorization').map(String));
      done(ANSWERS[call.request.model] ?? null);
    },
  });
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'a.sock')}`;
  await new Promise((resolve) => server.bindAsync(address, ServerCredentials.createInsecure(), resolve));
  client = new RocmForgeClient(address, { token: 'secret' });
});
afterAll(() => {
  client?.close();
  server?.forceShutdown();
});

async function errorOf(call: Promise<unknown>): Promise<RocmForgeClientError> {
  const error = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(RocmForgeClientError);
  return error as RocmForgeClientError;
}

describe('an error of the gateway', () => {
  it('names the field that is wrong', async () => {
    const error = await errorOf(client.getModel({ model: 'field' }));
    expect({ ...error, message: error.message }).toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: 'top_p is 2',
      reason: 'INVALID_FIELD',
      field: 'sampling.top_p',
      retryDelayMs: undefined,
      metadata: { field: 'sampling.top_p', more: 'pairs' },
    });
  });

  it('says when to try again', async () => {
    const error = await errorOf(client.getModel({ model: 'busy' }));
    expect(error).toMatchObject({ code: 'RESOURCE_EXHAUSTED', reason: 'QUEUE_FULL', retryDelayMs: 1500 });
  });

  it.each([
    ['plain', 'UNAVAILABLE'],
    ['garbled', 'INTERNAL'],
  ])('has its code when its details are %s', async (model, code) => {
    const error = await errorOf(client.getModel({ model }));
    expect(error).toMatchObject({ code, reason: undefined, field: undefined, metadata: {} });
    expect(error.cause).toMatchObject({ code: status[code as 'INTERNAL'] });
  });
});

it('nobody at the address is an error of the same kind', async () => {
  const lost = new RocmForgeClient('unix:/nowhere/at/all.sock');
  expect(await errorOf(lost.listModels())).toMatchObject({ code: 'UNAVAILABLE', reason: undefined });
  lost.close();
});

describe('a request that could not be what is meant is not sent', () => {
  const text = { $case: 'text', value: { text: 'the' } } as const;
  it.each([
    ['max_tokens', { input: text, max_tokens: 5 }],
    ['stop.max_tokens', { input: text, stop: { max_tokens: 5 } }],
    ['input.value.prompt', { input: { $case: 'text', value: { prompt: 'the' } } }],
    ['input', { input: { $case: 'prompt', value: { text: 'the' } } }],
    ['input.value.messages.0.text', { input: { $case: 'chat', value: { messages: [{ role: 'user', text: 'x' }] } } }],
  ])('%s', async (field, request) => {
    const error = await errorOf(client.generate(request as never));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'INVALID_FIELD', field });
    const streamed = client.generateStream(request as never).next();
    expect(await errorOf(streamed)).toMatchObject({ reason: 'INVALID_FIELD', field });
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('a deadline of %s ms', async (deadlineMs) => {
    const error = await errorOf(client.listModels({ deadlineMs }));
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', reason: 'INVALID_OPTION' });
  });
});

it('the token goes with each call', async () => {
  tokens.length = 0;
  await errorOf(client.getModel({ model: 'plain' }));
  expect(tokens).toEqual(['Bearer secret']);
});

it('a token that no header can hold is an error that does not quote it', () => {
  for (const token of ['secr\ret', 'secr\net', 'secrж', 'secr et']) {
    const open = () => new RocmForgeClient('127.0.0.1:1', { token });
    expect(open).toThrow(RocmForgeClientError);
    expect(open).toThrow(
      /^token has a character that no token has \(position 5\); give one line of visible ASCII characters$/,
    );
  }
});
