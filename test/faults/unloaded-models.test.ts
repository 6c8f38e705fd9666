import { appendFileSync, copyFileSync, cpSync, existsSync, mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import {
  HealthClient,
  HealthCheckResponse_ServingStatus as Status,
} from '../../src/shared/generated/grpc/health/v1/health.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { packageRoot } from '../../src/shared/package.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { CHAT_TEMPLATE, mixedRequest, seen, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier } from '../support/run-size.js';
import { hostMemory } from '../support/stray-writes.js';

const STREAMS = byTier({ quick: 6, default: 6, full: 12 });
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const options = { contextLength: 1024, chatTemplate: CHAT_TEMPLATE };
const models = { chat: writeRandomModel({ ...options, seed: 1 }), small: writeRandomModel({ ...options, seed: 2 }) };

let server: TestGateway;
afterEach(() => server.stop());

/** A gateway of two models, `chat` and `small`. */
async function start(more: Partial<GatewayOptions> & { readonly stepDelayMs?: number } = {}): Promise<void> {
  server = await startTestGateway(models.chat, {
    modelName: 'chat',
    moreModels: [{ model: models.small, modelName: 'small' }],
    ...more,
  });
}

function hosted(name: 'chat' | 'small'): HostedModel {
  return server.gateway.models.find(({ served }) => served.name === name) as HostedModel;
}

const pidOf = (name: 'chat' | 'small') => hosted(name).replicas[0]?.pid;
const stateOf = (name: 'chat' | 'small') => hosted(name).replicas[0]?.state;
const isAlive = (pid: number | undefined) => pid !== undefined && existsSync(`/proc/${pid}`);
const run = (model: string, i: number): Promise<Generated> => generate(server.client, { ...mixedRequest(i), model });
const runAll = (model: string) => Promise.all(Array.from({ length: STREAMS }, (_, i) => run(model, i)));
const short = (model: string, maxTokens = 8) =>
  generate(
    server.client,
    request({ text: 'the fox', model, sampling: { temperature: 0 }, stop: { maxTokens, ignoreEos: true } }),
  );

async function unloaded(name: 'chat' | 'small'): Promise<void> {
  hosted(name).router.unloadModel();
  await whenever(() => stateOf(name) === 'unloaded');
}

/** End of a request: `none`, an error's reason, or a status without one. */
async function reasonOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
    return 'none';
  } catch (error) {
    const { code } = error as ServiceError;
    return errorInfo(error as ServiceError)?.reason ?? status[code];
  }
}

describe('a model that was unloaded', () => {
  it('has no process, while the other’s streams go on, and computes the same when it is back', async () => {
    await start({ stepDelayMs: 5 });
    const undisturbed = await runAll('chat');
    const before = await runAll('small');
    const pid = pidOf('small');
    expect(isAlive(pid)).toBe(true);
    const others = runAll('chat');
    await whenever(() => hosted('chat').router.active > 0);
    await unloaded('small');
    expect(isAlive(pid)).toBe(false);
    expect(hosted('chat').router.active).toBeGreaterThan(0);
    const after = await runAll('small');
    expect(isAlive(pid)).toBe(false);
    expect(after.map(seen)).toEqual(before.map(seen));
    expect((await others).map(seen)).toEqual(undisturbed.map(seen));
    expect(server.gateway.faults).toEqual([]);
    expect(await server.gateway.metrics.registry.metrics()).not.toMatch(/restarts_total\{.*\} [1-9]/);
  });

  it('tells the time of its load as time in the queue, and is ready all the while', async () => {
    await start();
    const health = new HealthClient(server.address, credentials.createInsecure());
    const states = () =>
      Promise.all(
        ['', 'rocmforge.v1.InferenceService/small'].map(
          (service) =>
            new Promise((resolve, reject) => {
              health.check({ service }, (error, answer) => (error ? reject(error) : resolve(answer.status)));
            }),
        ),
      );
    try {
      const loaded = await short('small');
      await unloaded('small');
      expect(await states()).toEqual([Status.SERVING, Status.SERVING]);
      const begun = performance.now();
      const answer = short('small');
      await whenever(() => stateOf('small') === 'warming');
      expect(await states()).toEqual([Status.SERVING, Status.SERVING]);
      const { complete, tokenIds } = await answer;
      const loadMs = performance.now() - begun;
      expect(tokenIds).toEqual(loaded.tokenIds);
      expect(Number(loaded.complete?.usage?.queuedUs) / 1000).toBeLessThan(50);
      // A process is started and a model loaded, which is nearly all that it waited for.
      expect(Number(complete?.usage?.queuedUs) / 1000).toBeGreaterThan(loadMs / 2);
      const metrics = await server.gateway.metrics.registry.metrics();
      expect(metrics).toContain('rocmforge_model_loads_total{model_name="small"} 1');
      expect(metrics).toContain('rocmforge_model_unloads_total{model_name="small"} 1');
      expect(metrics).toContain('rocmforge_model_unloads_total{model_name="chat"} 0');
      expect(metrics).toMatch(/rocmforge_request_queue_time_seconds_bucket\{le="0.1",model_name="small"\} 1\n/);
    } finally {
      health.close();
    }
  });

  it('serves what comes in the moment in which it is unloaded', async () => {
    await start();
    const expected = (await short('small')).tokenIds;
    for (let i = 0; i < 16; i++) {
      hosted('small').router.unloadModel();
      // From before its process has been told to end, to after it has.
      if (i > 0) await wait(4 * i);
      const [first, second] = await Promise.all([short('small'), short('small')]);
      expect([first.tokenIds, second.tokenIds], `try ${i}`).toEqual([expected, expected]);
    }
    expect(hosted('small').idleUnloader.counters).toEqual({ unloads: 16, loads: 16 });
    expect(hosted('chat').idleUnloader.counters).toEqual({ unloads: 0, loads: 0 });
  });

  it('is not replaced, and drained at once', async () => {
    await start();
    await unloaded('small');
    const before = hosted('small').router.counts.executors;
    const pid = pidOf('chat');
    await server.gateway.replaceExecutors();
    expect(pidOf('chat')).not.toBe(pid);
    expect([stateOf('small'), hosted('small').router.counts.executors]).toEqual(['unloaded', before]);
    // Where anything is waited for, no time is left for it.
    expect(await server.gateway.drain(0)).toBe(true);
  });

  it('is loaded for what came before a drain, and for nothing that comes after', async () => {
    await start();
    const expected = (await short('small')).tokenIds;
    await unloaded('small');
    const waiting = short('small');
    await whenever(() => stateOf('small') === 'starting');
    const drained = server.gateway.drain(60_000);
    expect(await reasonOf(short('small'))).toBe('SHUTTING_DOWN');
    expect((await waiting).tokenIds).toEqual(expected);
    expect(await drained).toBe(true);
  });

  it('is not loaded again when its file was written to meanwhile, and the other is served', async () => {
    const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'small.gguf');
    copyFileSync(models.small, file);
    await start({ moreModels: [{ model: file, modelName: 'small' }] });
    await short('small');
    await unloaded('small');
    appendFileSync(file, 'more');
    expect(await reasonOf(short('small'))).toBe('MODEL_FILE_CHANGED');
    expect(await reasonOf(short('chat'))).toBe('none');
    expect(await reasonOf(short('small'))).toBe('MODEL_FILE_CHANGED');
  });
});

describe('a model that has failed', () => {
  it('gives the memory of its executor back when it is unloaded', async () => {
    await start({ maxRestarts: 0, hasSpare: false, moreModels: [] });
    await short('chat');
    expect(hostMemory().bytes).toBeGreaterThan(0);
    process.kill(pidOf('chat') as number, 'SIGSEGV');
    await whenever(() => stateOf('chat') === 'failed');
    await unloaded('chat');
    expect(() => hostMemory()).toThrow('holds no rocmforge-kv');
  });
});

describe('a model that is unloaded while its spare is loaded', () => {
  it('has no process when it is said to be unloaded', async () => {
    await start({ hasSpare: true, moreModels: [] });
    for (const delay of [0, 200, 300, 400]) {
      await short('chat');
      await wait(delay);
      await unloaded('chat');
      expect(executorsOf(process.pid), `after ${delay} ms`).toEqual([]);
    }
  });
});

describe('--idle-unload', () => {
  it('puts a model away when nothing has come for so long, and not while streams run or wait', async () => {
    await start({ idleUnloadMs: 400, maxSequences: 1, stepDelayMs: 20 });
    // Two streams on one slot, each longer than the model may be idle.
    const small = Promise.all([short('small', 60), short('small', 60)]);
    const pid = pidOf('small');
    await whenever(() => stateOf('chat') === 'unloaded');
    await small;
    expect([stateOf('small'), pidOf('small')]).toEqual(['serving', pid]);
    expect(hosted('small').idleUnloader.counters.unloads).toBe(0);
    await whenever(() => stateOf('small') === 'unloaded');
    expect(isAlive(pid)).toBe(false);
    const metrics = await server.gateway.metrics.registry.metrics();
    expect(metrics).toContain('rocmforge_model_unloaded{model_name="small"} 1');
    expect(metrics).toContain('rocmforge_executor_up{model_name="small"} 0');
    expect(await reasonOf(short('chat'))).toBe('none');
  });
});

describe('a model that is loaded on demand', () => {
  it('has no process before a request comes, and the others have none then', async () => {
    await start({ load: 'on-demand' });
    expect([pidOf('chat'), pidOf('small')]).toEqual([undefined, undefined]);
    await short('small');
    expect([isAlive(pidOf('chat')), isAlive(pidOf('small'))]).toEqual([false, true]);
  });

  it('is served though its executors are killed while they load', async () => {
    await start({ load: 'on-demand', maxRestarts: 100 });
    const waiting = runAll('small');
    for (let kill = 0; kill < 5; kill++) {
      const killed = pidOf('small');
      await whenever(() => pidOf('small') !== undefined && pidOf('small') !== killed);
      await wait(40 * kill);
      process.kill(pidOf('small') as number, 'SIGKILL');
    }
    const served = await waiting;
    expect((await runAll('small')).map(seen)).toEqual(served.map(seen));
  });

  it('goes on loading when the only one who waited has gone at its deadline', async () => {
    await start({ load: 'on-demand' });
    const message = request({ text: 'the fox', model: 'small', stop: { maxTokens: 8, ignoreEos: true } });
    const error = await new Promise<ServiceError>((resolve) => {
      const call = server.client.generateStream(message, { deadline: Date.now() + 50 });
      call.on('data', () => undefined);
      call.on('error', resolve);
    });
    expect(error.code).toBe(status.DEADLINE_EXCEEDED);
    await whenever(() => hosted('small').router.active === 0);
    await whenever(() => stateOf('small') === 'serving');
    expect((await short('small')).tokenIds).toHaveLength(8);
    expect(hosted('small').router.counts.executors).toBe(1);
  });

  it('that cannot be loaded says why to all who wait, and is tried again for those who come later', async () => {
    const kernels = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'kernels');
    await start({ load: 'on-demand', executor: { spawn: { device: 'host', kernels } } });
    const executors = () => hosted('small').router.counts.executors;
    const reasons = await Promise.all([reasonOf(short('small')), reasonOf(short('small'))]);
    expect(reasons).toEqual(['EXECUTOR_UNAVAILABLE', 'EXECUTOR_UNAVAILABLE']);
    // An early request gets the same error, and nothing is started.
    await expect(short('small')).rejects.toThrow(/exit code 1: .*KERNELS_INVALID/);
    await expect(short('small')).rejects.not.toThrow(path.dirname(kernels));
    expect(executors()).toBe(1);
    cpSync(path.join(packageRoot, 'build', 'kernels'), kernels, { recursive: true });
    await whenever(() => stateOf('small') === 'unloaded');
    expect(await reasonOf(short('small'))).toBe('none');
    expect(executors()).toBe(2);
  });
});

describe('a model without room for it', () => {
  it('is not loaded, in the executor’s own words, and the gateway lives', async () => {
    await start({ load: 'on-demand', kvMemoryBytes: 1 });
    await expect(short('small')).rejects.toThrow(/1 bytes of KV cache hold 0 tokens/);
    expect(await reasonOf(short('small'))).toBe('OUT_OF_MEMORY');
    expect(hosted('small').router.isReady).toBe(false);
    await whenever(() => hosted('small').router.isReady);
    expect(await reasonOf(short('small'))).toBe('OUT_OF_MEMORY');
    expect(server.gateway.faults).toEqual([]);
  });
});

describe('a model of two replicas', () => {
  const healthy = { spawn: { device: 'host' as const } };

  it('is unloaded with both, and both come back for the first who asks', async () => {
    await start({ moreExecutors: [healthy], stepDelayMs: 5 });
    const before = await runAll('small');
    const pids = hosted('small').replicas.map(({ pid }) => pid);
    hosted('small').router.unloadModel();
    await whenever(() => hosted('small').replicas.every(({ state }) => state === 'unloaded'));
    expect(pids.filter(isAlive)).toEqual([]);
    expect((await runAll('small')).map(seen)).toEqual(before.map(seen));
    await whenever(() => hosted('small').replicas.every(({ state }) => state === 'serving'));
    expect(hosted('small').idleUnloader.counters).toEqual({ unloads: 2, loads: 2 });
  });

  it('is served by the one that can be loaded, whoever was waiting for the other', async () => {
    const broken = { spawn: { device: 'host' as const, kernels: '/nowhere' } };
    await start({ load: 'on-demand', executor: broken, moreExecutors: [healthy] });
    const answers = await runAll('small');
    expect(hosted('small').replicas[1]?.state).toBe('serving');
    expect(hosted('small').replicas[0]?.state).not.toBe('serving');
    expect((await runAll('small')).map(seen)).toEqual(answers.map(seen));
    expect(hosted('small').router.isReady).toBe(true);
  });
});

describe('an executor of one of several models', () => {
  it('takes no stream of another with it', async () => {
    await start({ stepDelayMs: 5 });
    const [chat, small] = [await runAll('chat'), await runAll('small')];
    const pid = pidOf('chat');
    const running = [runAll('chat'), runAll('small')] as const;
    for (let kill = 0; kill < 3; kill++) {
      const killed = pidOf('small');
      await whenever(() => (hosted('small').replicas[0]?.scheduler?.stepsInFlight ?? 0) > 0);
      process.kill(killed as number, 'SIGKILL');
      await whenever(() => pidOf('small') !== killed && stateOf('small') === 'serving');
    }
    expect((await running[0]).map(seen)).toEqual(chat.map(seen));
    expect((await running[1]).map(seen)).toEqual(small.map(seen));
    expect(pidOf('chat')).toBe(pid);
    expect(hosted('chat').router.counts).toMatchObject({ executors: 1, replayed: 0 });
  });
});
