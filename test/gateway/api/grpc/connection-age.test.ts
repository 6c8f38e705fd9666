import { connect } from 'node:http2';
import { afterEach, expect, it } from 'vitest';
import {
  GenerateStreamRequest,
  InferenceServiceService,
} from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { request } from '../../../support/gateway.js';

let server: FakeGateway;
afterEach(() => server?.stop());

it('a connection that comes to its age takes no more calls, and its stream goes on to its end', async () => {
  server = await startFakeGateway({ listen: '127.0.0.1:0', maxConnectionAgeMs: 300 });
  const session = connect(`http://127.0.0.1:${server.gateway.port}`);
  const aged = new Promise((resolve) => session.once('goaway', resolve));
  const stream = session.request({
    ':method': 'POST',
    ':path': InferenceServiceService.generateStream.path,
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  const message = GenerateStreamRequest.encode(
    request({ text: 'the fox', stop: { maxTokens: 2000, ignoreEos: true } }),
  ).finish();
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([prefix, message]));
  let bytes = 0;
  stream.on('data', (data: Buffer) => {
    bytes += data.length;
  });
  const ended = new Promise<unknown>((resolve) =>
    stream.once('trailers', (trailers) => resolve(trailers['grpc-status'])),
  );
  await aged;
  const before = bytes;
  expect(() => session.request({ ':path': '/' })).toThrow();
  expect(String(await ended)).toBe('0');
  expect(bytes).toBeGreaterThan(before);
});
