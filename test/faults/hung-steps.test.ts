import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { describeFault, type Fault } from '../../src/shared/fault-log.js';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { startRocmforge } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing } from '../support/hip-double.js';
import { HANG_TIMEOUT_MS, hangInLaunch } from '../support/hung-launch.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

it('a step that does not come back is noticed, and costs no token', async () => {
  const server = await startTestGateway(writeRandomModel(), { stepTimeoutMs: 2000, stepDelayMs: 4 });
  try {
    const message = request({
      text: 'the fox',
      sampling: { temperature: 0 },
      stop: { maxTokens: 60, ignoreEos: true },
    });
    const undisturbed = await generate(server.client, message);
    const call = server.client.generateStream(message);
    const tokens: number[] = [];
    const ended = new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
    call.on('data', ({ event }) => event?.$case === 'chunk' && tokens.push(...event.value.tokenIds));
    await new Promise((resolve) => call.once('data', resolve));
    process.kill(server.gateway.executorPid() as number, 'SIGSTOP');
    await ended;
    expect(tokens).toEqual(undisturbed.tokenIds);
    const [fault] = server.gateway.faults;
    expect(fault?.cause).toMatch(/^executor hung: no step for \d+ ms; killed by the gateway$/);
    expect(describeFault(fault as Fault)).toMatch(/^executor hung: no step for \d+ ms; killed by the gateway; serving/);
    // It was stopped: it could not end when it was asked to.
    expect(fault?.signal).toBe('SIGKILL');
    expect(await server.gateway.metrics.registry.metrics()).toContain(
      'rocmforge_executor_restarts_total{reason="hung"} 1',
    );
  } finally {
    await server.stop();
  }
});

it('an executor’s health is NOT_SERVING after a sticky error, before the process ends with 86', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const address = `unix:${path.join(folder, 'executor.sock')}`;
  const options = ['--listen', address, '--device', 'host', '--plant-fault', 'sticky'];
  const { child } = await startRocmforge(/executor listening/, 'executor', ...options);
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const server = await startTestGateway(writeRandomModel(), { executor: { address }, maxRestarts: 0 });
  const health = new HealthClient(address, credentials.createInsecure());
  try {
    const told: HealthCheckResponse_ServingStatus[] = [];
    const watch = health.watch({ service: '' });
    watch.on('data', ({ status }) => told.push(status));
    watch.on('error', () => undefined);
    const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
    await expect.poll(() => told).toEqual([SERVING]);
    const request1 = generate(server.client, request({ text: 'a', stop: { maxTokens: 2 } }));
    await expect(request1).rejects.toMatchObject({ details: expect.stringContaining('it is retried every 30 s') });
    expect(await exited).toBe(86);
    expect(told).toEqual([SERVING, NOT_SERVING]);
  } finally {
    health.close();
    await server.stop();
  }
});

describe.skipIf(missing !== undefined)('the health that an executor tells of itself', () => {
  it('is NOT_SERVING while nothing is loaded, SERVING after it, NOT_SERVING while a launch hangs', async () => {
    expect(await hangInLaunch()).toBeGreaterThanOrEqual(HANG_TIMEOUT_MS);
  });
});
