import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import type { HostedModel } from '../../src/gateway/hosted-model.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { CHAT_TEMPLATE, mixedRequest, seen, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

const STREAMS = 12;
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const options = { contextLength: 1024, chatTemplate: CHAT_TEMPLATE };
const models = { chat: writeRandomModel({ ...options, seed: 1 }), small: writeRandomModel({ ...options, seed: 2 }) };

let server: TestGateway;
afterEach(() => server.stop());

/** A gateway of two models, `chat` and `small`. */
async function start(more: Partial<GatewayOptions> & { stepDelayMs?: number } = {}): Promise<void> {
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
const reasonOf = async (answer: Promise<unknown>) => {
  const error: unknown = await answer.then(() => undefined, (thrown: unknown) => thrown);
  return error === undefined ? 'none' : (errorInfo(error as ServiceError)?.reason ?? (error as ServiceError).code);
};

describe('a model that nobody asks for', () => {
  it('is put away with its process, while the other’s streams go on, and computes the same when it is back', async () => {
    await start({ stepDelayMs: 5 });
    const undisturbed = await Promise.all(Array.from({ length: STREAMS }, (_, i) => run('chat', i)));
    const before = await Promise.all(Array.from({ length: STREAMS }, (_, i) => run('small', i)));
    const pid = pidOf('small');
    expect(isAlive(pid)).toBe(true);
    const others = Array.from({ length: STREAMS }, (_, i) => run('chat', i));
    await whenever(() => hosted('chat').router.active > 0);
    hosted('small').router.unloadModel();
    await whenever(() => stateOf('small') === 'unloaded');
    expect(isAlive(pid)).toBe(false);
    expect(hosted('chat').router.active).toBeGreaterThan(0);
    const after = await Promise.all(Array.from({ length: STREAMS }, (_, i) => run('small', i)));
    expect(pidOf('small')).not.toBe(pid);
    expect(after.map(seen)).toEqual(before.map(seen));
    expect((await Promise.all(others)).map(seen)).toEqual(undisturbed.map(seen));
  });
});
