import { copyFileSync, existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AdminClient } from '../../src/cli/admin/admin-client.js';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Status,
} from '../../src/shared/generated/grpc/health/v1/health.js';
import type { ModelStatus } from '../../src/shared/generated/rocmforge/admin/v1/admin.js';
import { rocmforge } from '../support/command-line.js';
import { startFakeGateway } from '../support/fake-gateway.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { reasonOf } from '../support/streamed.js';

const models = { chat: writeRandomModel({ seed: 1 }), small: writeRandomModel({ seed: 2 }) };
const otherWeights = readFileSync(writeRandomModel({ seed: 3 }));
const folder = () => mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const message = (model: string, maxTokens = 16) =>
  request({ tokens: [1, 261, 265], model, sampling: { temperature: 0 }, stop: { maxTokens, ignoreEos: true } });

describe('the models of a running gateway', () => {
  let server: TestGateway;
  let admin: AdminClient;
  let adminListen = '';
  /** Path of the second model. */
  let file = '';
  beforeEach(async () => {
    const own = folder();
    adminListen = `unix:${path.join(own, 'admin.sock')}`;
    file = path.join(own, 'small.gguf');
    copyFileSync(models.small, file);
    server = await startTestGateway(models.chat, {
      modelName: 'chat',
      moreModels: [{ model: file, modelName: 'small', modelAlias: ['tiny'] }],
      adminListen,
      stepDelayMs: 5,
    });
    admin = new AdminClient(adminListen);
  });
  afterEach(async () => {
    admin.close();
    await server.stop();
  });

  const tokens = async (model: string, maxTokens?: number) =>
    (await generate(server.client, message(model, maxTokens))).tokenIds;
  const statusOf = async (name: string) => (await admin.models()).find((one) => one.name === name) as ModelStatus;
  const hosted = (name: string) => server.gateway.models.find(({ served }) => served.name === name) as HostedModel;
  const pidOf = (name: string) => hosted(name).replicas[0]?.pid;

  it('one is unloaded after its requests have ended, and loaded again, while the other serves', async () => {
    const before = await tokens('small', 100);
    const undisturbed = await tokens('chat', 400);
    const pid = pidOf('small');
    const other = tokens('chat', 400);
    const running = tokens('small', 100);
    await expect.poll(async () => (await statusOf('small')).active).toBe(1);
    const unloading = admin.unloadModel('small');
    await expect.poll(async () => (await statusOf('small')).admits).toBe(false);
    expect(await statusOf('small')).toMatchObject({ state: 'unloading', active: 1, executors: 1 });
    expect(await reasonOf(generate(server.client, message('small')))).toBe('MODEL_UNLOADED');
    expect(await running).toEqual(before);
    await unloading;
    const none = { name: 'small', admits: false, active: 0, executors: 0, problem: '' };
    expect(await statusOf('small')).toEqual({ ...none, state: 'unloaded' });
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(await reasonOf(generate(server.client, message('small')))).toBe('MODEL_UNLOADED');
    expect(hosted('small').replicas[0]?.state).toBe('unloaded');
    expect(await other).toEqual(undisturbed);
    await admin.loadModel('tiny');
    expect(await statusOf('small')).toMatchObject({ state: 'loaded', admits: true, executors: 1 });
    expect(await tokens('small', 100)).toEqual(before);
  });

  it('one that is unloaded is not ready, and the gateway is', async () => {
    const health = new HealthClient(server.address, credentials.createInsecure());
    const statuses = () =>
      Promise.all(
        ['', 'rocmforge.v1.InferenceService/small'].map(
          (service) => new Promise((resolve) => health.check({ service }, (_error, answer) => resolve(answer?.status))),
        ),
      );
    await admin.unloadModel('small');
    expect(await statuses()).toEqual([Status.SERVING, Status.NOT_SERVING]);
    await admin.loadModel('small');
    expect(await statuses()).toEqual([Status.SERVING, Status.SERVING]);
    health.close();
  });

  it('one whose executor was killed just now is unloaded for good', async () => {
    process.kill(pidOf('small') as number, 'SIGKILL');
    await expect.poll(() => hosted('small').replicas[0]?.state).not.toBe('serving');
    await admin.unloadModel('small');
    expect(await statusOf('small')).toMatchObject({ state: 'unloaded', executors: 0 });
    await admin.loadModel('small');
    expect(await tokens('small')).toHaveLength(16);
  });

  it('one that cannot be loaded is refused with the reason, and may be unloaded', async () => {
    await admin.unloadModel('small');
    writeFileSync(file, otherWeights);
    await expect(admin.loadModel('small')).rejects.toMatchObject({ reason: 'MODEL_FILE_CHANGED' });
    expect(await statusOf('small')).toMatchObject({ problem: expect.stringMatching(/^MODEL_FILE_CHANGED: /) });
    await admin.unloadModel('small');
    expect(await statusOf('small')).toMatchObject({ state: 'unloaded', admits: false });
    copyFileSync(models.small, file);
    await admin.loadModel('small');
    expect(await tokens('small')).toHaveLength(16);
  });

  it('one that there is not is refused by the names that there are', async () => {
    for (const call of [admin.loadModel('none'), admin.unloadModel('none')]) {
      await expect(call).rejects.toMatchObject({
        reason: 'MODEL_NOT_FOUND',
        message: 'there is no model "none" here, only "chat", "small"',
      });
    }
  });

  it('are loaded, unloaded and listed by the command line', async () => {
    const command = (...args: string[]) => rocmforge('admin', '--address', adminListen, ...args);
    expect(await command('--unload-model', 'small', '--models')).toEqual({
      code: 0,
      stdout: [
        'model  state     requests  active  executors  problem',
        'chat   loaded    admitted  0       1',
        'small  unloaded  refused   0       0',
        '',
      ].join('\n'),
      stderr: 'unloaded small\n',
    });
    const loaded = await command('--load-model', 'small', '--models', '--json');
    expect(JSON.parse(loaded.stdout)).toMatchObject([{ name: 'chat' }, { name: 'small', state: 'loaded' }]);
    expect(await command('--load-model', 'small')).toEqual({ code: 0, stdout: '', stderr: 'loaded small\n' });
    expect(await command('--load-model', 'none')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('MODEL_NOT_FOUND: there is no model "none" here'),
    });
  });
});

it('a model of executors elsewhere is not this gateway’s to unload', async () => {
  const adminListen = `unix:${path.join(folder(), 'admin.sock')}`;
  const server = await startFakeGateway({ adminListen });
  const admin = new AdminClient(adminListen);
  try {
    await expect(admin.unloadModel('random')).rejects.toMatchObject({
      reason: 'INVALID_FIELD',
      message: expect.stringMatching(/^model: the executors of this model were not started by this gateway; end them/),
    });
    expect((await admin.models()).map(({ name, state }) => [name, state])).toEqual([['random', 'loaded']]);
  } finally {
    admin.close();
    await server.stop();
  }
});
