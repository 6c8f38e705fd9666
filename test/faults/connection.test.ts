import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ExecuteResponse } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { MAX_MESSAGE_BYTES } from '../../src/shared/grpc/message-bytes.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { startFakeGateway } from '../support/fake-gateway.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { SocketProxy } from '../support/socket-proxy.js';

const message = (maxTokens = 40) =>
  request({ text: 'the fox', sampling: { temperature: 0.8, seed: 5n }, stop: { maxTokens, ignoreEos: true } });

describe('between a gateway and the executor it was given the address of', () => {
  let executor: Awaited<ReturnType<typeof startRocmforge>>;
  let proxy: SocketProxy;
  let server: TestGateway;
  let undisturbed: readonly number[];
  beforeAll(async () => {
    const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;
    const delay = ['--step-delay-ms', '5', '--device', 'host'];
    executor = await startRocmforge(/executor listening/, 'executor', '--listen', address, ...delay);
    proxy = new SocketProxy(address);
    const attached = { executor: { address: proxy.address }, stepTimeoutMs: 3000, maxRestarts: 20 };
    server = await startTestGateway(writeRandomModel(), attached);
    undisturbed = (await generate(server.client, message())).tokenIds;
  });
  afterAll(async () => {
    await server?.stop();
    proxy?.close();
    if (executor) await endProcess(executor.child);
  });

  it.each([
    ['a socket that is cut', () => proxy.cut()],
    ['a socket through which nothing comes any more', () => proxy.freeze()],
    ['bytes that are no HTTP/2', () => proxy.inject(Buffer.from('GET / HTTP/1.1\r\n\r\n'.repeat(50)))],
    ['an HTTP/2 frame that is too long', () => proxy.inject(Buffer.from([0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 7, 7]))],
    ['random bytes', () => proxy.inject(Buffer.from(Array.from({ length: 999 }, (_, i) => (i * 167 + 13) % 256)))],
  ])('%s costs a new connection and generation, and no token', async (_name, disturb) => {
    const generations = server.gateway.executorEpoch();
    const connections = proxy.connections;
    const running = generate(server.client, message());
    await new Promise((resolve) => setTimeout(resolve, 60));
    disturb();
    expect((await running).tokenIds).toEqual(undisturbed);
    expect(server.gateway.executorEpoch()).toBe(generations + 1);
    expect(proxy.connections).toBe(connections + 1);
    expect(executor.child.exitCode).toBeNull();
  });
});

describe('an executor that answers wrongly', () => {
  it('with late results of an old epoch: they are dropped', async () => {
    const server = await startFakeGateway();
    try {
      const { tokenIds } = await generate(server.client, message());
      let late = 0;
      server.executor.rewrite = (response) => {
        late += 1;
        // Response that the last generation would have sent: another token, under the same step number.
        const outputs = response.outputs.map((output) => ({ ...output, tokenId: output.tokenId + 1 }));
        return [{ ...response, epoch: response.epoch - 1n, outputs }, response];
      };
      expect((await generate(server.client, message())).tokenIds).toEqual(tokenIds);
      expect(late).toBeGreaterThan(30);
      expect(server.gateway.executorEpoch()).toBe(1);
    } finally {
      await server.stop();
    }
  });

  it('with one message beyond the limit: the stream goes on with the next generation', async () => {
    const server = await startFakeGateway({ maxRestarts: 5 });
    try {
      const { tokenIds } = await generate(server.client, message());
      let answers = 0;
      server.executor.rewrite = (response) => {
        answers += 1;
        if (answers !== 10) return [response];
        const topLogprobs = Array<number>(MAX_MESSAGE_BYTES / 4 + 1).fill(1);
        const output = { slot: 0, tokenId: 0, logprob: 0, topIds: [], topLogprobs };
        return [ExecuteResponse.fromPartial({ ...response, outputs: [output] })];
      };
      expect((await generate(server.client, message())).tokenIds).toEqual(tokenIds);
      expect(server.gateway.executorEpoch()).toBe(2);
    } finally {
      await server.stop();
    }
  });
});
