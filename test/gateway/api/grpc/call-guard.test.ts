import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import type { Socket } from 'node:net';
import { credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { afterEach, beforeEach, expect, it } from 'vitest';
import {
  GenerateRequest,
  type GenerateResponse,
  GenerateStreamRequest,
  InferenceServiceClient,
  InferenceServiceService,
} from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { request } from '../../../support/gateway.js';

let server: FakeGateway;
let session: ClientHttp2Session;
let name = '';
beforeEach(async () => {
  server = await startFakeGateway({ listen: '127.0.0.1:0' });
  session = connect(`http://127.0.0.1:${server.gateway.port}`);
  await new Promise((resolve) => session.once('connect', resolve));
  name = `127.0.0.1:${(session.socket as Socket).localPort}`;
});
afterEach(async () => {
  session.destroy();
  await server.stop();
});

function call(path: string): ClientHttp2Stream {
  const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
  return session.request(headers).on('error', () => undefined);
}

function framed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

const generation = framed(
  GenerateStreamRequest.encode(request({ text: 'the fox', stop: { maxTokens: 4000, ignoreEos: true } })).finish(),
);
const GENERATE = InferenceServiceService.generateStream.path;

it('a connection works while a request of it that has arrived is answered', async () => {
  const { calls } = server.gateway.server;
  const stream = call(GENERATE);
  stream.write(generation.subarray(0, 10));
  await expect.poll(() => calls.callsOf(name)).toMatchObject({ started: 1, working: 0 });
  stream.end(generation.subarray(10));
  await expect.poll(() => calls.callsOf(name)).toMatchObject({ started: 1, working: 1 });
  stream.close();
  await expect.poll(() => calls.callsOf(name)).toMatchObject({ started: 1, working: 0 });
});

it('a connection that watches health alone does not work', async () => {
  const { calls } = server.gateway.server;
  const stream = call('/grpc.health.v1.Health/Watch');
  stream.end(framed(new Uint8Array()));
  await new Promise((resolve) => stream.once('data', resolve));
  expect(calls.callsOf(name)).toMatchObject({ started: 1, working: 0 });
  call(GENERATE).end(generation);
  await expect.poll(() => calls.callsOf(name)).toMatchObject({ started: 2, working: 1 });
});

it.each([
  [24, 'a timer reaches'],
  [26, 'no timer reaches'],
  [50 * 365, 'no timer reaches'],
])('a call whose deadline is in %i days, which %s, gets all of its tokens', async (days) => {
  const options = { deadline: Date.now() + days * 24 * 3_600_000 };
  const message = GenerateRequest.fromPartial(request({ text: 'the fox', stop: { maxTokens: 3, ignoreEos: true } }));
  const client = new InferenceServiceClient(`127.0.0.1:${server.gateway.port}`, credentials.createInsecure());
  const call = new Promise<GenerateResponse>((resolve, reject) => {
    client.generate(message, new Metadata(), options, (error: ServiceError | null, response) =>
      error === null ? resolve(response) : reject(error),
    );
  });
  const { completions } = await call.finally(() => client.close());
  expect(completions[0]?.tokenIds).toHaveLength(3);
});
