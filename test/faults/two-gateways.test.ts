import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ExecuteRequest,
  ExecutorServiceClient,
  LoadModelRequest,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const LEASE_MS = 1500;
const model = writeRandomModel();
const message = (maxTokens = 60) =>
  request({ text: 'the fox', sampling: { temperature: 0.8, seed: 5n }, stop: { maxTokens, ignoreEos: true } });
const options = ['--device', 'host', '--step-delay-ms', '10', '--lease-ms', String(LEASE_MS)];

describe('one executor and two gateways', () => {
  let address = '';
  let executor: Awaited<ReturnType<typeof startRocmforge>>;
  beforeEach(async () => {
    address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;
    executor = await startRocmforge(/executor listening/, 'executor', '--listen', address, ...options);
  });
  afterEach(() => endProcess(executor.child, 'SIGKILL'));

  const start = () => startTestGateway(model, { executor: { address }, maxRestarts: 3 });

  it('serve one after the other: the second waits until the first has gone, and takes nothing from it', async () => {
    const first = await start();
    const undisturbed = await generate(first.client, message());
    const running = generate(first.client, message());
    let isServing = false;
    const second = start().then((server) => {
      isServing = true;
      return server;
    });
    // Longer than the lease: the first is heard of though nothing is asked of it in the end.
    expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
    await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
    expect(isServing).toBe(false);
    expect(first.gateway.executorGenerations()).toBe(1);
    await first.stop();
    const { client, stop } = await second;
    try {
      expect((await generate(client, message())).tokenIds).toEqual(undisturbed.tokenIds);
    } finally {
      await stop();
    }
  });

  it('the second has it when the first has not been heard of for the lease', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const listen = ['--listen', `unix:${path.join(folder, 'gateway.sock')}`, '--state-dir', folder];
    const held = ['--max-sequences', '16', '--max-step-tokens', '512', '--kv-cache-type', 'f32'];
    const first = await startRocmforge(
      /^serving /,
      'serve',
      '--model',
      model,
      '--executor',
      address,
      ...listen,
      ...held,
    );
    try {
      first.child.kill('SIGSTOP');
      const second = await start();
      await generate(second.client, message(5));
      // The first wakes up and is told that it has lost it. It waits, and gets it back.
      first.child.kill('SIGCONT');
      await new Promise((resolve) => setTimeout(resolve, LEASE_MS));
      expect(second.gateway.executorGenerations()).toBe(1);
      await second.stop();
    } finally {
      await endProcess(first.child, 'SIGKILL');
    }
  });

  it('strangers are refused without harm to the stream that runs', async () => {
    const server = await start();
    const stranger = new ExecutorServiceClient(address, credentials.createInsecure());
    try {
      const undisturbed = await generate(server.client, message());
      const running = generate(server.client, message());
      await new Promise((resolve) => setTimeout(resolve, 100));
      const ends = (call: NodeJS.ReadableStream) =>
        new Promise<string | undefined>((resolve) => {
          call.on('data', () => undefined);
          call.on('error', (error) => resolve(errorInfo(error as unknown as ServiceError)?.reason));
          call.on('end', () => resolve('none'));
        });
      const execute = stranger.execute();
      execute.write(ExecuteRequest.fromPartial({ stepId: 1n, generation: 1n, closes: [0] }));
      const other = LoadModelRequest.fromPartial({ path: model, generation: 1n, maxContext: 64, maxSequences: 1 });
      const reasons = await Promise.all([ends(execute), ends(stranger.loadModel(other))]);
      expect(reasons).toEqual(['EXECUTOR_UNAVAILABLE', 'INVALID_OPTION']);
      expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
      expect(server.gateway.executorGenerations()).toBe(1);
    } finally {
      stranger.close();
      await server.stop();
    }
  });
});
