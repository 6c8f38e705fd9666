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
    });
    await generate(server.client, message(0));
  });
  afterAll(() => server?.stop());

  const kill = () => process.kill(server.gateway.executorPid() as number, 'SIGKILL');
  const blocks = () => server.gateway.replica.scheduler?.blocks;

  /** Nothing is left of anybody. */
  const expectQuiet = async () => {
    await expect.poll(() => server.gateway.replica.active).toBe(0);
    await expect.poll(() => server.gateway.replica.scheduler?.stepsInFlight).toBe(0);
    server.gateway.replica.scheduler?.check();
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

it('a slow reader whose stream is paused gets every token through a kill, and holds up nobody', async () => {
  // Twenty alternatives a token fill the connection soon.
  const TOKENS = 2400;
  const server = await startTestGateway(writeRandomModel({ contextLength: 3072 }), { maxSequences: 2 });
  try {
    const slow = request({
      tokens: [1, 270, 280],
      sampling: { temperature: 0.5, seed: 4n },
      stop: { maxTokens: TOKENS, ignoreEos: true },
      output: { logprobs: 20, promptLogprobs: undefined, echo: false, includeSpecialTokens: false, promptText: false },
    });
    const undisturbed = await generate(server.client, slow);
    const quick = await generate(server.client, message(5));
    const tokens: number[] = [];
    const call = server.client.generateStream(slow);
    const ended = new Promise<void>((resolve, reject) => {
      call.on('error', reject);
      call.on('end', resolve);
    });
    call.on('data', ({ event }) => event?.$case === 'chunk' && tokens.push(...event.value.tokenIds));
    await new Promise((resolve) => call.once('data', resolve));
    call.pause();
    // It is under way, and nothing is computed for it.
    const inFlight = () => server.gateway.replica.scheduler?.stepsInFlight;
    let idleSince = performance.now();
    while (performance.now() - idleSince < 300) {
      if (inFlight() !== 0) idleSince = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    expect(server.gateway.replica.active).toBe(1);
    expect(tokens.length).toBeLessThan(TOKENS);
    process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    await expect.poll(() => server.gateway.executorEpoch()).toBe(2);
    expect((await generate(server.client, message(5))).tokenIds).toEqual(quick.tokenIds);
    call.resume();
    await ended;
    expect(tokens).toEqual(undisturbed.tokenIds);
  } finally {
    await server.stop();
  }
});
