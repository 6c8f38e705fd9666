import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { Duplex } from 'node:stream';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { type ServiceError, status, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addReflection } from '../../../../src/gateway/api/grpc/reflection.js';
import { readDescriptorSet } from '../../../../src/shared/grpc/descriptors.js';
import { errorInfo } from '../../../../src/shared/grpc/status.js';
import { packageRoot } from '../../../../src/shared/package.js';
import { runProgram } from '../../../support/command-line.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ReflectionClient } from '../../../support/reflection-client.js';

const SERVICES = [
  'grpc.health.v1.Health',
  'rocmforge.v1.InferenceService',
  'vllm.Control',
  'vllm.Inference',
  'vllm.grpc.engine.VllmEngine',
];

const API = 'rocmforge/v1/inference.proto';
const buf = path.join(packageRoot, 'node_modules', '.bin', 'buf');

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ listen: '127.0.0.1:0' });
});
afterAll(() => server?.stop());

/** The name of a file, the first field of its descriptor. */
function nameOf(descriptor: Uint8Array): string {
  const reader = new BinaryReader(descriptor);
  reader.tag();
  return reader.string();
}

/** Descriptors that buf makes of the .proto files now, by name. */
function builtByBuf(): Map<string, Buffer> {
  const set = execFileSync(buf, ['build', '--as-file-descriptor-set', '--exclude-source-info', '-o', '-'], {
    cwd: packageRoot,
  });
  const files = new Map<string, Buffer>();
  const reader = new BinaryReader(set);
  while (reader.pos < reader.len) {
    reader.tag();
    const file = reader.bytes();
    files.set(nameOf(file), Buffer.from(file));
  }
  return files;
}

describe.each(['v1', 'v1alpha'] as const)('reflection %s', (version) => {
  let client: ReflectionClient;
  beforeAll(() => {
    client = new ReflectionClient(`127.0.0.1:${server.gateway.port}`, version);
  });
  afterAll(() => client?.close());

  it('lists the public services and health, and not the executor’s', async () => {
    const [answer] = await client.ask({ listServices: '*' });
    const names = answer?.listServicesResponse?.service.map(({ name }) => name);
    expect(names?.sort()).toEqual(SERVICES);
  });

  it.each([
    ['a service', 'rocmforge.v1.InferenceService'],
    ['a method', 'rocmforge.v1.InferenceService.Generate'],
    ['a message', 'rocmforge.v1.GenerateStreamRequest'],
    ['a field', 'rocmforge.v1.SamplingParameters.top_p'],
  ])('resolves the file of %s', async (_what, symbol) => {
    const [answer] = await client.ask({ fileContainingSymbol: symbol });
    expect(answer?.fileDescriptorResponse?.fileDescriptorProto.map(nameOf)).toContain(API);
  });

  it('serves each file by its name, byte for byte as buf builds it', async () => {
    const built = builtByBuf();
    const names = readDescriptorSet().map(nameOf);
    expect(names).toEqual(
      expect.arrayContaining([
        API,
        'google/rpc/status.proto',
        'google/rpc/error_details.proto',
        'google/protobuf/any.proto',
      ]),
    );
    for (const name of names) {
      const [answer] = await client.ask({ fileByFilename: name });
      const files = answer?.fileDescriptorResponse?.fileDescriptorProto ?? [];
      const served = new Map(files.map((file) => [nameOf(file), file]));
      expect(served.has(name)).toBe(true);
      for (const [file, bytes] of served) expect(bytes.equals(built.get(file) as Buffer), file).toBe(true);
    }
  });

  it('knows neither the executor’s protocol nor what is nowhere', async () => {
    const answers = await client.ask(
      { fileContainingSymbol: 'rocmforge.executor.v1.ExecutorService' },
      { fileByFilename: 'rocmforge/executor/v1/executor.proto' },
      { fileContainingSymbol: 'no.such.Symbol' },
    );
    expect(answers.map(({ errorResponse }) => errorResponse?.errorCode)).toEqual(Array(3).fill(status.NOT_FOUND));
  });

  it('refuses a question that is too long, and says so', async () => {
    const error = await client.ask({ fileContainingSymbol: 'x'.repeat(2000) }).catch((error: ServiceError) => error);
    expect(errorInfo(error as ServiceError)?.reason).toBe('MESSAGE_TOO_LARGE');
  });

  it('ends a call that asks for ever', async () => {
    const call = client.open();
    let answers = 0;
    call.on('data', () => {
      answers += 1;
      for (let i = 0; i < 2; i++) call.write({ fileContainingSymbol: 'x'.repeat(900) });
    });
    call.write({ listServices: '' });
    const error = await new Promise<ServiceError>((resolve) => call.on('error', resolve));
    expect(error.code).toBe(status.RESOURCE_EXHAUSTED);
    expect(answers).toBeGreaterThan(10);
    expect(answers).toBeLessThan(80);
  });

  it('a call that is open counts, until it has ended', async () => {
    const { calls } = server.gateway.server;
    await expect.poll(() => calls.openCalls).toBe(0);
    const call = client.open();
    call.on('error', () => undefined).on('data', () => undefined);
    call.write({ listServices: '' });
    await expect.poll(() => calls.openCalls).toBe(1);
    call.cancel();
    await expect.poll(() => calls.openCalls).toBe(0);
  });
});

it('reads no further questions of a client that reads no answers', async () => {
  const handlers: UntypedServiceImplementation[] = [];
  addReflection({ addService: (_service, implementation) => handlers.push(implementation) }, []);
  const handle = handlers[0]?.ServerReflectionInfo as unknown as (call: Duplex) => void;
  let asked = 0;
  const reader = new Duplex({
    objectMode: true,
    read() {
      asked += 1;
      this.push({ messageRequest: 'listServices', listServices: '' });
    },
    // Nothing that is written is ever taken.
    write() {},
  });
  handle(reader);
  await expect.poll(() => reader.isPaused()).toBe(true);
  expect(reader.writableLength).toBe(reader.writableHighWaterMark);
  expect(asked).toBeLessThan(4 * reader.readableHighWaterMark);
  reader.destroy();
});

describe('buf curl, which knows no schema', () => {
  const curl = (...args: string[]) =>
    runProgram(buf, ['curl', '--protocol', 'grpc', '--http2-prior-knowledge', ...args]);
  const url = (rest: string) => `http://127.0.0.1:${server.gateway.port}${rest}`;

  it('lists the services', async () => {
    const { code, stdout } = await curl('--list-services', url(''));
    expect({ code, services: stdout.trim().split('\n').sort() }).toEqual({
      code: 0,
      services: SERVICES,
    });
  });

  it('calls a method', async () => {
    const data = JSON.stringify({ text: { text: 'the fox' } });
    const { code, stdout } = await curl('--data', data, url('/rocmforge.v1.InferenceService/Tokenize'));
    expect(code).toBe(0);
    expect((JSON.parse(stdout) as { tokenIds: number[] }).tokenIds.length).toBeGreaterThan(0);
  });
});
