import { credentials, type ServiceError } from '@grpc/grpc-js';
import { afterEach, expect, it } from 'vitest';
import { INFERENCE_SERVICE } from '../../../../src/gateway/api/grpc/inference-service.js';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../../../src/shared/generated/grpc/health/v1/health.js';
import { LIVENESS } from '../../../../src/shared/grpc/health.js';
import { startFakeGateway } from '../../../support/fake-gateway.js';
import { request, startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { writeRandomModel } from '../../../support/random-model.js';

let server: TestGateway;
let health: HealthClient;
afterEach(async () => {
  health?.close();
  await server?.stop();
});

function check(service: string): Promise<ServingStatus> {
  return new Promise((resolve, reject) => {
    health.check({ service }, (error: ServiceError | null, response) =>
      error ? reject(error) : resolve(response.status),
    );
  });
}

const { SERVING, NOT_SERVING } = ServingStatus;
const states = () => Promise.all(['', INFERENCE_SERVICE, LIVENESS].map(check));

it('a gateway whose executor was killed, and that may start no other, is not ready and alive', async () => {
  server = await startTestGateway(writeRandomModel(), { maxRestarts: 0 });
  health = new HealthClient(server.address, credentials.createInsecure());
  expect(await states()).toEqual([SERVING, SERVING, SERVING]);
  process.kill(server.gateway.executorPid() as number, 'SIGKILL');
  await expect.poll(states).toEqual([NOT_SERVING, NOT_SERVING, SERVING]);
});

it('a gateway that drains is not ready and alive', async () => {
  server = await startFakeGateway({ stepMs: 20 });
  health = new HealthClient(server.address, credentials.createInsecure());
  const call = server.client.generateStream(request({ text: 'the fox', stop: { maxTokens: 4000, ignoreEos: true } }));
  call.on('error', () => undefined);
  await new Promise((resolve) => call.once('data', resolve));
  const drained = server.gateway.drain(300_000);
  expect(await states()).toEqual([NOT_SERVING, NOT_SERVING, SERVING]);
  call.cancel();
  expect(await drained).toBe(true);
});
