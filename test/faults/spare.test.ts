import { existsSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import { executorsOf } from '../../tools/executors-of.mjs';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { seen } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';

let server: TestGateway;
afterEach(() => server.stop());

const isAlive = (pid: number) => existsSync(`/proc/${pid}`);
const spares = () => server.gateway.replica.counts.spares;
const ready = () => expect.poll(spares, { interval: 5 }).toBe(1);
const killed = async (pid: number): Promise<void> => {
  process.kill(pid, 'SIGKILL');
  await expect.poll(() => isAlive(pid), { interval: 1 }).toBe(false);
};

const executors = () => executorsOf(process.pid);

describe('a spare executor', () => {
  const message = request({
    text: 'the old fox ran',
    sampling: { temperature: 0.8, seed: 3n },
    stop: { maxTokens: 200, ignoreEos: true },
  });
  const start = async (): Promise<void> => {
    server = await startTestGateway(writeRandomModel({ contextLength: 1024 }), { hasSpare: true, stepDelayMs: 5 });
    await ready();
  };

  it('takes over when the other is killed, with the same tokens, and another stands by', async () => {
    await start();
    const undisturbed = await generate(server.client, message);
    const before = server.gateway.executorPid() as number;
    const [spare] = executors().filter((pid) => pid !== before);
    const running = generate(server.client, message);
    await expect.poll(() => server.gateway.replica.counts.running, { interval: 1 }).toBe(1);
    await killed(before);
    expect(seen(await running)).toEqual(seen(undisturbed));
    expect(server.gateway.executorPid()).toBe(spare);
    await ready();
    expect(executors().length).toBe(2);
  });

  it('is replaced when it is killed itself, and no stream notices', async () => {
    await start();
    const undisturbed = await generate(server.client, message);
    const before = server.gateway.executorPid() as number;
    const [spare] = executors().filter((pid) => pid !== before);
    const running = generate(server.client, message);
    await killed(spare as number);
    expect(seen(await running)).toEqual(seen(undisturbed));
    expect(server.gateway.executorPid()).toBe(before);
    await ready();
    expect(server.gateway.replica.counts.executors).toBe(1);
  });

  it('is there by default on the CPU once one has served for a while, unless none is wanted', async () => {
    const model = writeRandomModel({ contextLength: 1024 });
    server = await startTestGateway(model, { spareOnHostMs: 1 });
    await ready();
    await server.stop();
    server = await startTestGateway(model, { spareOnHostMs: 1, hasSpare: false });
    await generate(server.client, message);
    expect(executors().length).toBe(1);
  });

  it('is not what follows when another executor is asked for, and ends with the gateway', async () => {
    await start();
    const first = executors();
    expect(server.gateway.replica.replace()).toBe(true);
    await expect.poll(() => server.gateway.executorState()).toBe('serving');
    expect(first).not.toContain(server.gateway.executorPid());
    await ready();
    const last = executors();
    await server.stop();
    await expect.poll(() => last.filter(isAlive)).toEqual([]);
  });
});
