import { expect, it } from 'vitest';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

it('metrics tell of an executor that is killed and of one that hangs', async () => {
  const server = await startTestGateway(writeRandomModel(), { stepDelayMs: 4, stepTimeoutMs: 3000 });
  const text = () => server.gateway.metrics.registry.metrics();
  /** The values of all metrics of the executor, without the prefix. */
  const values = async () => {
    const lines = (await text()).split('\n').filter((line) => !line.startsWith('#'));
    return Object.fromEntries(
      lines.map((line) => line.split(' ')).map(([name, value]) => [name?.replace('rocmforge_', ''), Number(value)]),
    );
  };
  try {
    const message = (i: number) =>
      request({ tokens: [1, 270 + i], sampling: { temperature: 0 }, stop: { maxTokens: 60, ignoreEos: true } });
    const three = () => Promise.all([0, 1, 2].map((i) => generate(server.client, message(i))));
    await three();
    expect(await values()).toMatchObject({
      executor_up: 1,
      executor_epoch: 1,
      executor_last_step_age_seconds: 0,
      executor_recovery_seconds_count: 0,
      requests_replayed_total: 0,
      requests_quarantined_total: 0,
      num_requests_running: 0,
    });

    const first = three();
    await expect.poll(async () => (await values()).num_requests_running).toBe(3);
    process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    await expect.poll(async () => (await values()).executor_up, { interval: 5 }).toBe(0);
    await first;
    const killed = await values();
    expect(killed).toMatchObject({
      executor_up: 1,
      executor_epoch: 2,
      'executor_restarts_total{reason="SIGKILL"}': 1,
      executor_recovery_seconds_count: 1,
      requests_replayed_total: 3,
      requests_quarantined_total: 0,
    });
    expect(killed.executor_recovery_seconds_sum).toBeGreaterThan(0.05);

    const second = three();
    await expect.poll(async () => (await values()).num_requests_running).toBe(3);
    process.kill(server.gateway.executorPid() as number, 'SIGSTOP');
    await expect.poll(async () => (await values()).executor_last_step_age_seconds).toBeGreaterThan(0.5);
    await second;
    expect(await values()).toMatchObject({
      executor_epoch: 3,
      'executor_restarts_total{reason="SIGKILL"}': 1,
      'executor_restarts_total{reason="hung"}': 1,
      executor_recovery_seconds_count: 2,
      requests_replayed_total: 6,
    });

    // Without requests the next executor alone ends the recovery: the wait for a request is none of it.
    process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    await expect.poll(values).toMatchObject({
      ...{ executor_epoch: 4, executor_up: 1, executor_recovery_seconds_count: 3, num_requests_running: 0 },
    });
    const idle = (await values()).executor_recovery_seconds_sum;
    await three();
    expect(await values()).toMatchObject({
      ...{ executor_recovery_seconds_count: 3, executor_recovery_seconds_sum: idle },
    });

    const types = (await text()).split('\n').filter((line) => /^# TYPE rocmforge_\S+_total /.test(line));
    expect(types.filter((line) => !line.endsWith(' counter'))).toEqual([]);
    expect(types.length).toBeGreaterThan(5);
  } finally {
    await server.stop();
  }
});
