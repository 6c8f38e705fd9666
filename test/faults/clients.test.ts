import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const message = (i: number, maxTokens = 60) =>
  request({
    tokens: [1, 270 + (i % 20), 280],
    sampling: { temperature: 0.5, seed: BigInt(i) },
    stop: { maxTokens, ignoreEos: true },
  });

const openFiles = () => readdirSync('/proc/self/fd').length;

describe('clients that misbehave while the executor is killed', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel(), {
      stepDelayMs: 4,
      maxRestarts: 50,
      maxSequences: 8,
      maxQueuedRequests: 32,
      pauseLimitMs: 1500,
    });
    await generate(server.client, message(0));
  });
  afterAll(() => server?.stop());

  const kill = () => process.kill(server.gateway.executorPid() as number, 'SIGKILL');
  const blocks = () => server.gateway.engine.schedulerState?.blocks;

  /** Nothing is left of anybody. */
  const expectQuiet = async () => {
    await expect.poll(() => server.gateway.engine.active).toBe(0);
    await expect.poll(() => server.gateway.engine.schedulerState?.stepsInFlight).toBe(0);
    server.gateway.engine.schedulerState?.check();
    expect(blocks()?.freeCount).toBe(blocks()?.capacity);
  };

  it('gone before, at and after the kill: their sequences end, the others lose no token', async () => {
    const undisturbed = await generate(server.client, message(1));
    const calls = Array.from({ length: 6 }, (_, i) => {
      const call = server.client.generateStream(message(10 + i, 400));
      call.on('data', () => undefined);
      call.on('error', () => undefined);
      return call;
    });
    const staying = generate(server.client, message(1));
    await new Promise((resolve) => setTimeout(resolve, 80));
    calls[0]?.cancel();
    calls[1]?.cancel();
    kill();
    calls[2]?.cancel();
    calls[3]?.cancel();
    await expect.poll(() => server.gateway.executorState()).toBe('serving');
    calls[4]?.cancel();
    calls[5]?.cancel();
    expect((await staying).tokenIds).toEqual(undisturbed.tokenIds);
    await expectQuiet();
  });

  it('slow: one that does not read is ended with SLOW_READER, through a kill, and the others go on', async () => {
    const long = writeSlow();
    const undisturbed = await generate(server.client, message(2));
    const staying = generate(server.client, message(2));
    await new Promise((resolve) => setTimeout(resolve, 100));
    kill();
    expect((await staying).tokenIds).toEqual(undisturbed.tokenIds);
    // It reads on when it is too late, or never was in time: either all tokens or the error, and nothing in between.
    const ended = await long;
    expect(['all', 'SLOW_READER']).toContain(ended);
    await expectQuiet();
  });

  /** A stream that is read only after 2 s. */
  function writeSlow(): Promise<string> {
    const call = server.client.generateStream(message(3, 450));
    return new Promise((resolve) => {
      let tokens = 0;
      setTimeout(() => {
        call.on('data', ({ event }) => {
          if (event?.$case === 'chunk') tokens += event.value.tokenIds.length;
        });
      }, 2000);
      call.on('error', (error: ServiceError) => resolve(errorInfo(error)?.reason ?? String(error.code)));
      call.on('end', () => resolve(tokens === 450 ? 'all' : `${tokens} tokens`));
    });
  }

  it('flooding: what is too much is refused with RESOURCE_EXHAUSTED and when to come again, the rest is served', async () => {
    const before = openFiles();
    const flood = Array.from({ length: 1000 }, (_, i) =>
      generate(server.client, message(i, 5)).catch((error: ServiceError) => error),
    );
    await new Promise((resolve) => setTimeout(resolve, 30));
    kill();
    const answers = await Promise.all(flood);
    const refused = answers.filter((answer): answer is ServiceError => 'code' in answer);
    const served = answers.length - refused.length;
    console.log(`a flood of 1000: ${served} served, ${refused.length} refused`);
    expect(served).toBeGreaterThanOrEqual(32);
    expect(new Set(refused.map((error) => status[error.code]))).toEqual(new Set(['RESOURCE_EXHAUSTED']));
    expect(new Set(refused.map((error) => errorInfo(error)?.reason))).toEqual(new Set(['QUEUE_FULL']));
    expect(Number(errorInfo(refused[0] as ServiceError)?.metadata.retry_delay_ms)).toBeGreaterThan(0);
    await expectQuiet();
    await expect.poll(openFiles).toBeLessThanOrEqual(before + 1);
  });

  it('the executor’s socket and record are the gateway’s user’s alone, in a folder that is too', () => {
    const socket = server.gateway.executorAddress()?.slice('unix:'.length) as string;
    const folder = path.dirname(socket);
    const mode = (file: string) => statSync(file).mode & 0o777;
    expect([mode(folder), mode(socket), mode(path.join(folder, 'fault-record'))]).toEqual([0o700, 0o600, 0o600]);
  });
});
