import { existsSync } from 'node:fs';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { ask } from '../support/http.js';
import { CHAT_TEMPLATE, mixedRequest, seen, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const STREAMS = 4;
const NAMES = ['first', 'second', 'third'] as const;
type Name = (typeof NAMES)[number];
const files = NAMES.map((_, i) => writeRandomModel({ contextLength: 1024, chatTemplate: CHAT_TEMPLATE, seed: i + 1 }));

let server: TestGateway;
afterEach(() => server.stop());

async function start(more: Partial<GatewayOptions> & { readonly stepDelayMs?: number } = {}): Promise<void> {
  server = await startTestGateway(files[0] as string, {
    modelName: NAMES[0],
    moreModels: NAMES.slice(1).map((modelName, i) => ({ model: files[i + 1] as string, modelName })),
    httpListen: '127.0.0.1:0',
    maxLoadedModels: 1,
    ...more,
  });
}

const hosted = (name: Name) => server.gateway.models.find(({ served }) => served.name === name) as HostedModel;
const states = () => NAMES.map((name) => hosted(name).replicas[0]?.state);
const pidOf = (name: Name) => hosted(name).replicas[0]?.pid;
const runAll = (model: Name) =>
  Promise.all(Array.from({ length: STREAMS }, (_, i) => generate(server.client, { ...mixedRequest(i), model })));
const short = (model: Name, maxTokens = 8) =>
  generate(
    server.client,
    request({ text: 'the fox', model, sampling: { temperature: 0 }, stop: { maxTokens, ignoreEos: true } }),
  );
const livingExecutors = () => NAMES.map(pidOf).filter((pid) => pid !== undefined && existsSync(`/proc/${pid}`)).length;

async function reasonOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer;
    return 'none';
  } catch (error) {
    return errorInfo(error as ServiceError)?.reason ?? status[(error as ServiceError).code];
  }
}

describe('a limit of loaded models', () => {
  it('loads the first with the gateway, and another in its place when a request comes', async () => {
    await start();
    expect(states()).toEqual(['serving', 'unloaded', 'unloaded']);
    const pid = pidOf('first');
    expect((await short('second')).tokenIds).toHaveLength(8);
    expect(states()).toEqual(['unloaded', 'serving', 'unloaded']);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(hosted('first').idleUnloader.counters).toEqual({ unloads: 1, loads: 0 });
    expect(hosted('second').idleUnloader.counters).toEqual({ unloads: 0, loads: 1 });
  });

  it('serves all requests for all models at once with one executor at a time, as without a limit', async () => {
    await start({ maxLoadedModels: 3 });
    const expected = await Promise.all(NAMES.map(runAll));
    await server.stop();
    await start({ stepDelayMs: 2 });
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, livingExecutors());
    }, 5);
    const given = await Promise.all(NAMES.map(runAll));
    clearInterval(watch);
    expect(given.map((answers) => answers.map(seen))).toEqual(expected.map((answers) => answers.map(seen)));
    expect(most).toBe(1);
    const counters = NAMES.map((name) => hosted(name).idleUnloader.counters);
    for (const { loads } of counters.slice(1)) expect(loads).toBeGreaterThan(0);
    const unloads = counters.reduce((sum, { unloads }) => sum + unloads, 0);
    expect(unloads).toBe(counters.reduce((sum, { loads }) => sum + loads, 0));
  });

  it('changes nothing of answers when executors are killed while they serve, load and wait', async () => {
    await start({ maxRestarts: 100, stepDelayMs: 2 });
    const expected = [await runAll('first'), await runAll('second')];
    const given = [runAll('first'), runAll('second')];
    let kills = 0;
    for (const name of ['first', 'second'] as const) {
      await whenever(() => pidOf(name) !== undefined);
      for (let i = 0; i < 3; i++) {
        const killed = pidOf(name) as number;
        process.kill(killed, 'SIGKILL');
        kills += 1;
        await whenever(() => pidOf(name) !== undefined && pidOf(name) !== killed);
      }
    }
    expect((await Promise.all(given)).map((answers) => answers.map(seen))).toEqual(
      expected.map((answers) => answers.map(seen)),
    );
    expect(kills).toBe(6);
  });

  it('does not unload a model with requests, and leaves it when who waited has gone', async () => {
    await start({ stepDelayMs: 20 });
    const busy = short('first', 60);
    await whenever(() => hosted('first').router.active > 0);
    const message = request({ text: 'the fox', model: 'second', stop: { maxTokens: 8, ignoreEos: true } });
    const error = await new Promise<ServiceError>((resolve) => {
      const call = server.client.generateStream(message, { deadline: Date.now() + 200 });
      call.on('data', () => undefined);
      call.on('error', resolve);
      setTimeout(() => expect(hosted('second').place?.isWaiting).toBe(true), 100);
    });
    expect(error.code).toBe(status.DEADLINE_EXCEEDED);
    await busy;
    await whenever(() => hosted('second').place?.isWaiting === false);
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(states()).toEqual(['serving', 'unloaded', 'unloaded']);
  });

  it('serves who waited before a drain', async () => {
    await start({ stepDelayMs: 10 });
    const busy = short('first', 40);
    await whenever(() => hosted('first').router.active > 0);
    const waiting = short('second');
    await whenever(() => hosted('second').place?.isWaiting === true);
    const metrics = await server.gateway.metrics.registry.metrics();
    expect(metrics).toContain('rocmforge_model_waits_for_load{model_name="second"} 1');
    expect(metrics).toContain('rocmforge_model_waits_for_load{model_name="third"} 0');
    const drained = server.gateway.drain(60_000);
    expect((await busy).tokenIds).toHaveLength(40);
    expect((await waiting).tokenIds).toHaveLength(8);
    expect(await drained).toBe(true);
  });

  it('lets llama.cpp’s paths load one model for another', async () => {
    await start({ load: 'on-demand' });
    const post = (path: string, body: object) => ask(server.gateway, path, body);
    const status = async (name: Name) =>
      (await ask(server.gateway, '/v1/models')).json.data.find(({ id }: { id: string }) => id === name).status.value;
    for (const model of ['first', 'second'] as const) {
      expect((await post('/models/load', { model })).json).toEqual({ success: true });
      await expect.poll(() => status(model)).toBe('loaded');
    }
    expect(await status('first')).toBe('unloaded');
    expect((await post('/models/unload', { model: 'second' })).json).toEqual({ success: true });
    expect(await status('second')).toBe('unloaded');
    expect((await post('/tokenize', { model: 'third', content: 'a' })).status).toBe(200);
    await expect.poll(() => status('third')).toBe('loaded');
  });
});

describe('--load on-command', () => {
  it('loads a model by command, and not for requests', async () => {
    await start({ load: 'on-command' });
    expect(await reasonOf(short('second'))).toBe('MODEL_NOT_LOADED');
    const post = (path: string, body: object) => ask(server.gateway, path, body);
    const chat = { model: 'second', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 };
    const refused = await post('/v1/chat/completions', chat);
    expect([refused.status, refused.json.error.code]).toEqual([400, 'MODEL_NOT_LOADED']);
    expect((await post('/tokenize', { model: 'second', content: 'a' })).status).toBe(200);
    expect(states()).toEqual(['unloaded', 'unloaded', 'unloaded']);
    await post('/models/load', { model: 'second' });
    await whenever(() => hosted('second').router.isLoaded);
    expect((await post('/v1/chat/completions', chat)).status).toBe(200);
    const { json } = await ask(server.gateway, '/props');
    expect([json.role, json.max_instances, json.models_autoload]).toEqual(['router', 1, false]);
    expect((await ask(server.gateway, '/props?model=second')).json).toMatchObject({ role: 'model' });
  });

  it('is what autoload=false means for one request', async () => {
    await start({ load: 'on-demand' });
    const chat = { model: 'second', messages: [{ role: 'user', content: 'a' }], max_tokens: 2 };
    const post = (path: string, body: object) => ask(server.gateway, path, body);
    for (const [path, body] of [
      ['/v1/chat/completions?autoload=false', chat],
      ['/v1/embeddings?autoload=0', { model: 'second', input: 'a' }],
    ] as const) {
      const { status, json } = await post(path, body);
      expect([path, status, json.error.code]).toEqual([path, 400, 'MODEL_NOT_LOADED']);
    }
    expect((await post('/tokenize?autoload=false', { model: 'second', content: 'a' })).status).toBe(200);
    expect(states()).toEqual(['unloaded', 'unloaded', 'unloaded']);
    expect((await post('/v1/chat/completions?autoload=true', chat)).status).toBe(200);
    expect((await post('/v1/chat/completions?autoload=false', chat)).status).toBe(200);
  });
});
