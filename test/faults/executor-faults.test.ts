import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

describe('when the executor is killed', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel(), { stepDelayMs: 4 });
  });
  afterAll(() => server?.stop());

  it('every stream goes on with the tokens of a run without the fault, and health tells of the gap', async () => {
    const messages = Array.from({ length: 8 }, (_, i) =>
      request({
        text: 'wind sang to the old sea'.slice(0, 4 + 2 * i),
        sampling: { temperature: i % 2, seed: BigInt(i) },
        stop: { maxTokens: 60, ignoreEos: true },
      }),
    );
    const undisturbed = await Promise.all(messages.map((message) => generate(server.client, message)));

    const seen: HealthCheckResponse_ServingStatus[] = [];
    const health = new HealthClient(server.address, credentials.createInsecure());
    const watch = health.watch({ service: 'rocmforge.v1.InferenceService' });
    watch.on('data', ({ status: serving }) => seen.push(serving));
    watch.on('error', () => undefined);

    const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
    await expect.poll(() => seen).toEqual([SERVING]);
    const disturbed = messages.map((message) => generate(server.client, message));
    const first = server.gateway.executorPid();
    await new Promise((resolve) => setTimeout(resolve, 100));
    process.kill(first as number, 'SIGKILL');
    const answers = await Promise.all(disturbed);

    expect(answers.map(({ tokenIds }) => tokenIds)).toEqual(undisturbed.map(({ tokenIds }) => tokenIds));
    expect(answers.map(({ text }) => text)).toEqual(undisturbed.map(({ text }) => text));
    expect(server.gateway.executorPid()).not.toBe(first);
    await expect.poll(() => seen).toEqual([SERVING, NOT_SERVING, SERVING]);
    watch.cancel();
    health.close();
  });

  it('the next request works', async () => {
    const answer = await generate(server.client, request({ text: 'the', stop: { maxTokens: 5, ignoreEos: true } }));
    expect(answer.tokenIds).toHaveLength(5);
  });
});

describe('when the executor hangs', () => {
  it('it is replaced after the step timeout and the stream goes on', async () => {
    const server = await startTestGateway(writeRandomModel(), { stepTimeoutMs: 2000, stepDelayMs: 4 });
    try {
      const message = request({
        text: 'the fox',
        sampling: { temperature: 0 },
        stop: { maxTokens: 60, ignoreEos: true },
      });
      const undisturbed = await generate(server.client, message);
      const running = generate(server.client, message);
      await new Promise((resolve) => setTimeout(resolve, 100));
      process.kill(server.gateway.executorPid() as number, 'SIGSTOP');
      expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
    } finally {
      await server.stop();
    }
  });
});

describe('when the executor is killed again and again, for longer than the recovery timeout', () => {
  it('streams end with UNAVAILABLE, a reason and when to try again', async () => {
    const server = await startTestGateway(writeRandomModel(), { recoveryTimeoutMs: 2000, stepDelayMs: 400 });
    try {
      const running = generate(server.client, request({ text: 'the', stop: { maxTokens: 100 } }));
      const killer = setInterval(() => {
        const pid = server.gateway.executorPid();
        if (pid !== undefined) process.kill(pid, 'SIGKILL');
      }, 20);
      const error = await running.then(
        () => undefined,
        (thrown: ServiceError) => thrown,
      );
      clearInterval(killer);
      expect(error && status[error.code]).toBe('UNAVAILABLE');
      expect(error && errorInfo(error)?.reason).toBe('EXECUTOR_UNAVAILABLE');
      expect(error && errorInfo(error)?.metadata.retry_delay_ms).toBe('30000');
    } finally {
      await server.stop();
    }
  });
});
