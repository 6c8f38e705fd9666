import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  ExecuteRequest,
  ExecutorServiceClient,
  type GetInfoResponse,
  LoadModelRequest,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { packageVersion as version } from '../../src/shared/package.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const LEASE_MS = 1500;
const model = writeRandomModel();
const message = (maxTokens = 60) =>
  request({ text: 'the fox', sampling: { temperature: 0.8, seed: 5n }, stop: { maxTokens, ignoreEos: true } });
const options = ['--device', 'host', '--step-delay-ms', '10', '--lease-ms', String(LEASE_MS)];

/** Why a call ends. */
const reasonOf = (call: NodeJS.ReadableStream) =>
  new Promise<string | undefined>((resolve) => {
    call.on('data', () => undefined);
    call.on('error', (error) => resolve(errorInfo(error as unknown as ServiceError)?.reason));
    call.on('end', () => resolve('none'));
  });

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
    expect(first.gateway.executorEpoch()).toBe(1);
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
      expect(second.gateway.executorEpoch()).toBe(1);
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
      const execute = stranger.execute();
      execute.write(ExecuteRequest.fromPartial({ stepId: 1n, epoch: 1n, closes: [0] }));
      const other = LoadModelRequest.fromPartial({ path: model, epoch: 1n, version, maxContext: 64, maxSequences: 1 });
      const reasons = await Promise.all([reasonOf(execute), reasonOf(stranger.loadModel(other))]);
      expect(reasons).toEqual(['EXECUTOR_UNAVAILABLE', 'INVALID_OPTION']);
      // The public information does not reveal the name.
      const info = await new Promise<GetInfoResponse | undefined>((resolve) =>
        stranger.getInfo({}, (_error, response) => resolve(response)),
      );
      expect(info?.model?.epoch).toBe(0n);
      const draft = stranger.execute();
      draft.write(ExecuteRequest.fromPartial({ stepId: 0n, epoch: info?.model?.epoch ?? 0n }));
      expect(await reasonOf(draft)).toBe('EXECUTOR_UNAVAILABLE');
      expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
      expect(server.gateway.executorEpoch()).toBe(1);
    } finally {
      stranger.close();
      await server.stop();
    }
  });

  it('a stranger whose load fails keeps nobody from the executor', async () => {
    const stranger = new ExecutorServiceClient(address, credentials.createInsecure());
    const failed = stranger.loadModel(
      LoadModelRequest.fromPartial({
        path: '/nonexistent.gguf',
        version,
        gateway: 7n,
        maxContext: 64,
        maxSequences: 1,
      }),
    );
    expect(await reasonOf(failed)).toBe('MODEL_FILE_UNREADABLE');
    const server = await start();
    expect(server.gateway.executorEpoch()).toBe(1);
    stranger.close();
    await server.stop();
  });

  it('a gateway of another release is refused, and told which there are', async () => {
    const stranger = new ExecutorServiceClient(address, credentials.createInsecure());
    const load = { path: model, maxContext: 64, maxSequences: 1 };
    for (const other of ['', '0.0.9']) {
      const call = stranger.loadModel(LoadModelRequest.fromPartial({ ...load, version: other }));
      expect(await reasonOf(call)).toBe('EXECUTOR_PROTOCOL');
    }
    stranger.close();
  });

  it('a path that is a pipe is refused, and costs the executor nothing', async () => {
    const pipe = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'pipe.gguf');
    execFileSync('mkfifo', [pipe]);
    const stranger = new ExecutorServiceClient(address, credentials.createInsecure());
    const load = LoadModelRequest.fromPartial({ path: pipe, version, maxContext: 64, maxSequences: 1 });
    expect(await reasonOf(stranger.loadModel(load))).toBe('MODEL_FILE_UNREADABLE');
    stranger.close();
  });

  it('that start together: one waits for the other', async () => {
    const servers = [start(), start(), start()];
    const first = await Promise.race(servers.map((server, i) => server.then((is) => ({ is, i }))));
    await generate(first.is.client, message(5));
    await first.is.stop();
    const rest = servers.filter((_, i) => i !== first.i);
    const second = await Promise.race(rest.map((server, i) => server.then((is) => ({ is, i }))));
    await second.is.stop();
    await (await (rest[1 - second.i] as ReturnType<typeof start>)).stop();
  });
});
