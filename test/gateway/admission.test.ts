import { type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { RetryInfo } from '../../src/shared/generated/google/rpc/error_details.js';
import { Status } from '../../src/shared/generated/google/rpc/status.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

let server: FakeGateway;
afterEach(() => server.stop());

const long = request({ text: 'the fox', stop: { maxTokens: 300, ignoreEos: true } });
const refusal = (message: typeof long) =>
  generate(server.client, message).then(
    () => undefined,
    (error: ServiceError) => error,
  );

it('refuses what comes to a full queue, and says when to try again', async () => {
  server = await startFakeGateway({ maxSequences: 1, maxQueuedRequests: 1, stepMs: 5 });
  const calls = [0, 1].map(async (i) => {
    await expect.poll(() => server.gateway.replica.active).toBeGreaterThanOrEqual(i);
    const call = server.client.generateStream(long);
    call.on('error', () => undefined);
    return call;
  });
  const [first, second] = await Promise.all(calls);
  await expect.poll(() => server.gateway.replica.scheduler?.waitingCount).toBe(1);
  const error = await refusal(long);
  expect(error?.code).toBe(status.RESOURCE_EXHAUSTED);
  expect(errorInfo(error as ServiceError)?.reason).toBe('QUEUE_FULL');
  const [bytes] = (error as ServiceError).metadata.get('grpc-status-details-bin') as [Buffer];
  const retry = Status.decode(bytes).details.find(({ typeUrl }) => typeUrl.endsWith('google.rpc.RetryInfo'));
  expect(RetryInfo.decode(retry?.value as Buffer).retryDelay).toEqual({ seconds: 1n, nanos: 0 });
  first?.cancel();
  second?.cancel();
});

it('refuses at once what the KV cache can never hold', async () => {
  server = await startFakeGateway({ kvBlocks: 11 });
  const error = await refusal(request({ text: 'the', stop: { maxTokens: 200, ignoreEos: true } }));
  expect(error?.code).toBe(status.INVALID_ARGUMENT);
  expect(errorInfo(error as ServiceError)?.reason).toBe('PROMPT_TOO_LONG');
  expect(server.executor.device?.steps).toBe(0);
});

it('gives everything back when a gRPC deadline passes, waiting or running', async () => {
  server = await startFakeGateway({ maxSequences: 1, stepMs: 5 });
  const codes = [1, 2].map(
    () =>
      new Promise((resolve) => {
        const call = server.client.generateStream(long, { deadline: Date.now() + 200 });
        call.on('data', () => undefined).on('error', (error: ServiceError) => resolve(error.code));
      }),
  );
  expect(await Promise.all(codes)).toEqual([status.DEADLINE_EXCEEDED, status.DEADLINE_EXCEEDED]);
  await expect.poll(() => server.gateway.replica.active).toBe(0);
  await expect.poll(() => server.gateway.replica.scheduler?.stepsInFlight).toBe(0);
  const scheduler = server.gateway.replica.scheduler;
  scheduler?.check();
  expect(scheduler?.blocks.freeCount).toBe(scheduler?.blocks.capacity);
});
