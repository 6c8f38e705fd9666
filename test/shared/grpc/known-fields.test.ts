import { BinaryWriter } from '@bufbuild/protobuf/wire';
import { credentials, makeClientConstructor, type ServiceError } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  GenerateStreamRequest,
  InferenceServiceService,
  SamplingParameters,
} from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { decodeKnown } from '../../../src/shared/grpc/known-fields.js';
import { errorInfo } from '../../../src/shared/grpc/status.js';
import { request, startTestGateway, type TestGateway } from '../../support/gateway.js';

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway('models/demo.gguf', {});
});
afterAll(() => server.stop());

const plain = GenerateStreamRequest.encode(request({ text: 'Once', stop: { maxTokens: 1 } })).finish();
const unknown = new BinaryWriter()
  .uint32((99 << 3) | 2)
  .string('x')
  .finish();
const inside = new BinaryWriter()
  .uint32((5 << 3) | 2)
  .bytes(Buffer.concat([SamplingParameters.encode(SamplingParameters.create({ topK: 3 })).finish(), unknown]))
  .finish();
/** `model` as a number. */
const ofAnotherType = new BinaryWriter()
  .uint32((1 << 3) | 0)
  .uint32(7)
  .finish();
const large = GenerateStreamRequest.encode(request({ text: 'a '.repeat(40_000) })).finish();

/** The error of a call whose request has these bytes. */
function refusalOf(method: 'generate' | 'tokenize', bytes: Uint8Array): Promise<ServiceError> {
  const raw = { ...InferenceServiceService[method], requestSerialize: (value: Buffer) => value };
  const Client = makeClientConstructor({ raw } as never, 'raw');
  const client = new Client(server.address, credentials.createInsecure());
  return new Promise((resolve, reject) => {
    const call = client.raw as (bytes: Buffer, done: (error: ServiceError | null) => void) => void;
    call.call(client, Buffer.from(bytes), (error) => {
      client.close();
      if (error === null) reject(new Error('it was answered'));
      else resolve(error);
    });
  });
}

it.each([
  ['of the request', Buffer.concat([plain, unknown]), '99'],
  ['of a message in it', Buffer.concat([plain, inside]), '99'],
  ['of another type', Buffer.concat([plain, ofAnotherType]), '1'],
  ['of a request that is decoded in a thread', Buffer.concat([large, unknown]), '99'],
])('a field that is not known, %s, is refused by its number', async (_where, bytes, field) => {
  const error = await refusalOf('generate', bytes);
  const { reason, metadata } = errorInfo(error) ?? {};
  expect([error.code, reason, metadata?.field]).toEqual([3, 'INVALID_FIELD', field]);
});

it('requests about texts are read as strictly', async () => {
  expect(errorInfo(await refusalOf('tokenize', unknown))?.metadata.field).toBe('99');
});

it('decodes as before what is known', () => {
  for (const bytes of [plain, large]) {
    expect(decodeKnown(bytes, (reader) => GenerateStreamRequest.decode(reader))).toEqual(
      GenerateStreamRequest.decode(bytes),
    );
  }
});
