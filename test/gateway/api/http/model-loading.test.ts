import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HostedModel } from '../../../../src/gateway/hosted-model.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask } from '../../../support/http.js';

let server: FakeGateway;
let kept: FakeGateway;
beforeAll(async () => {
  const options = { modelName: 'm', httpListen: '127.0.0.1:0', model: { chatTemplate: '{{ messages[0].content }}' } };
  server = await startFakeGateway({ ...options, idleUnloadMs: 3_600_000, httpMetrics: true });
  kept = await startFakeGateway(options);
});
afterAll(async () => {
  await server.stop();
  await kept.stop();
});

const post = (path: string, body: object, { gateway } = server) => ask(gateway, path, body);
const status = async () => (await ask(server.gateway, '/v1/models')).json.data[0].status.value;
const isSleeping = async () => (await ask(server.gateway, '/props')).json.is_sleeping;
const unload = async () => {
  expect((await post('/models/unload', { model: 'm' })).json).toEqual({ success: true });
  expect([await status(), await isSleeping()]).toEqual(['unloaded', true]);
};

describe('a model', () => {
  it('is unloaded and loaded by llama.cpp’s paths, and loaded by the next request', async () => {
    await unload();
    expect((await post('/models/load', { model: 'm' })).json).toEqual({ success: true });
    expect(await isSleeping()).toBe(false);
    await expect.poll(status).toBe('loaded');
    await unload();
    expect((await post('/completion', { prompt: [259], n_predict: 1 })).status).toBe(200);
    expect(await status()).toBe('loaded');
    expect((await post('/models/load', { model: 'm' })).json).toEqual({ success: true });
  });

  it('says in its status and metrics whether an operator has unloaded it', async () => {
    const [{ router }] = server.gateway.models as [HostedModel];
    const seen = async () => {
      const metrics = await server.gateway.metrics.registry.metrics();
      const value = /^rocmforge_model_unloaded_by_operator (\d)$/m.exec(metrics)?.[1];
      return [(await ask(server.gateway, '/v1/models')).json.data[0].status, Number(value)];
    };
    await unload();
    expect(await seen()).toEqual([{ value: 'unloaded' }, 0]);
    await router.unload();
    expect(await seen()).toEqual([{ value: 'unloaded', reason: 'MODEL_UNLOADED', message: expect.any(String) }, 1]);
    const refused = await post('/models/load', { model: 'm' });
    expect([refused.status, refused.json.error.message]).toEqual([503, expect.stringContaining('--load-model')]);
    await router.load();
    expect(await seen()).toEqual([{ value: 'loaded' }, 0]);
  });

  it.each(['on-demand', 'on-command'] as const)('is unloaded by requests with --load %s', async (load) => {
    const lazy = await startFakeGateway({ modelName: 'm', httpListen: '127.0.0.1:0', load });
    try {
      const value = async () => (await ask(lazy.gateway, '/v1/models')).json.data[0].status.value;
      for (let i = 0; i < 2; i++) {
        expect(await value()).toBe('unloaded');
        await post('/models/load', { model: 'm' }, lazy);
        await expect.poll(value).toBe('loaded');
        expect((await post('/models/unload', { model: 'm' }, lazy)).json).toEqual({ success: true });
      }
    } finally {
      await lazy.stop();
    }
  });

  it('is not unloaded where the gateway unloads none, and not found by another name', async () => {
    const refused = await post('/models/unload', { model: 'm' }, kept);
    expect([refused.status, refused.json.error.message]).toEqual([501, expect.stringContaining('--idle-unload')]);
    for (const path of ['/models/load', '/models/unload']) {
      expect((await post(path, { model: 'other' })).status).toBe(404);
      expect((await post(path, {})).json.error.param).toBe('model');
    }
  });

  it.each([
    ['/tokenize', { content: 'a' }],
    ['/v1/chat/completions/input_tokens', { messages: [{ role: 'user', content: 'a b' }] }],
    ['/v1/responses/input_tokens', { input: 'a b' }],
    ['/v1/messages/count_tokens', { messages: [{ role: 'user', content: 'a b' }] }],
  ])('is loaded when %s counts the tokens of what comes next', async (path, body) => {
    await unload();
    const { json } = await post(path, body);
    expect(json.input_tokens ?? json.tokens.length).toBeGreaterThan(0);
    expect(await isSleeping()).toBe(false);
    await expect.poll(status).toBe('loaded');
  });

  it('stays unloaded when its template is applied or its metrics are scraped', async () => {
    await unload();
    expect((await post('/apply-template', { messages: [{ role: 'user', content: 'a' }] })).status).toBe(200);
    expect((await ask(server.gateway, '/metrics')).status).toBe(200);
    expect(await isSleeping()).toBe(true);
  });

  it('has rates of what has ended since the last scrape', async () => {
    const rates = async () => {
      const { text } = await ask(server.gateway, '/metrics');
      return ['prompt', 'predicted'].map((name) =>
        Number(new RegExp(`^llamacpp:${name}_tokens_seconds (.+)$`, 'm').exec(text)?.[1]),
      );
    };
    await rates();
    expect((await post('/completion', { prompt: [259, 260], n_predict: 8, ignore_eos: true })).status).toBe(200);
    for (const rate of await rates()) expect(rate).toBeGreaterThan(0);
    expect(await rates()).toEqual([0, 0]);
  });
});

describe('the tokens of a request of the Responses API', () => {
  it('are those that its response reports', async () => {
    const body = { input: [{ role: 'user', content: 'the old fox' }], instructions: 'Be brief.' };
    const { json } = await post('/v1/responses/input_tokens', body);
    const { usage } = (await post('/v1/responses', { ...body, max_output_tokens: 1 })).json;
    expect(json).toEqual({ object: 'response.input_tokens', input_tokens: usage.input_tokens });
  });

  it('are not counted behind a stored response', async () => {
    const { status, json } = await post('/v1/responses/input_tokens', { previous_response_id: 'resp_1', input: 'a' });
    expect([status, json.error.param]).toEqual([400, 'previous_response_id']);
  });
});
