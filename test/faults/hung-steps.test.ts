import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ExecutorSession } from '../../src/gateway/executor-link/executor-session.js';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import {
  ExecuteRequest,
  ExecutorServiceClient,
  KvCacheType,
  LoadModelRequest,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { StepWatch } from '../../src/shared/step-watch.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { writeRandomModel } from '../support/random-model.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

afterEach(() => vi.restoreAllMocks());

describe('a step that does not come back', () => {
  it.each([1000, 1700])('is noticed within its deadline of %s ms and 250 ms, and costs no token', async (floorMs) => {
    const server = await startTestGateway(writeRandomModel(), { stepTimeoutMs: floorMs, stepDelayMs: 4 });
    try {
      const message = request({
        text: 'the fox',
        sampling: { temperature: 0 },
        stop: { maxTokens: 60, ignoreEos: true },
      });
      const undisturbed = await generate(server.client, message);
      // When the oldest step under way could begin, and what it was given: as the gateway's own clock has it.
      let oldest = { since: 0, deadlineMs: 0 };
      let watched: StepWatch | undefined;
      const submit = ExecutorSession.prototype.submit;
      vi.spyOn(ExecutorSession.prototype, 'submit').mockImplementation(function (this: ExecutorSession, step) {
        submit.call(this, step);
        watched ??= this.watch;
      });
      const end = StepWatch.prototype.end;
      vi.spyOn(StepWatch.prototype, 'end').mockImplementation(function (this: StepWatch) {
        end.call(this);
        if (this === watched) oldest = { since: performance.now(), deadlineMs: this.deadlineMs(floorMs) ?? 0 };
      });
      const running = generate(server.client, message);
      running.catch(() => undefined);
      await expect.poll(() => oldest.since, { interval: 5 }).toBeGreaterThan(0);
      await new Promise((resolve) => setTimeout(resolve, 60));
      process.kill(server.gateway.executorPid() as number, 'SIGSTOP');
      while (server.gateway.executorState() === 'serving') await new Promise((resolve) => setTimeout(resolve, 1));
      const lateMs = performance.now() - oldest.since - oldest.deadlineMs;
      console.log(`deadline ${oldest.deadlineMs.toFixed(0)} ms, noticed ${lateMs.toFixed(0)} ms after it`);
      // More than the floor only where steps have been slow: on a machine that does other things.
      expect(oldest.deadlineMs).toBeGreaterThanOrEqual(floorMs);
      expect(lateMs).toBeGreaterThan(0);
      expect(lateMs).toBeLessThanOrEqual(250);
      expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
      const [fault] = server.gateway.faults;
      expect(fault?.cause).toMatch(/no step came back/);
      // It was stopped: it could not end when it was asked to.
      expect(fault?.signal).toBe('SIGKILL');
      expect(await server.gateway.metrics.registry.metrics()).toContain(
        'rocmforge_executor_restarts_total{reason="hung"} 1',
      );
    } finally {
      await server.stop();
    }
  });
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
    await expect(request1).rejects.toMatchObject({ details: expect.stringContaining('tried more slowly') });
    expect(await exited).toBe(86);
    expect(told).toEqual([SERVING, NOT_SERVING]);
  } finally {
    health.close();
    await server.stop();
  }
});

describe.skipIf(missing !== undefined)('the health that an executor tells of itself', () => {
  it('is NOT_SERVING while nothing is loaded, SERVING after it, NOT_SERVING while a launch hangs', {
    timeout: 120_000,
  }, async () => {
    const HANGS_AT = 8;
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const address = `unix:${path.join(folder, 'executor.sock')}`;
    const before = { ...process.env };
    new HipDouble({ fault: `hang@graph:${HANGS_AT}` }).install();
    const options = ['--listen', address, '--device', 'hip', '--step-timeout-ms', '1000'];
    const { child } = await startRocmforge(/executor listening/, 'executor', ...options).finally(() => {
      process.env = before;
    });
    const client = new ExecutorServiceClient(address, credentials.createInsecure());
    const health = new HealthClient(address, credentials.createInsecure());
    const told: [status: HealthCheckResponse_ServingStatus, atMs: number][] = [];
    const watch = health.watch({ service: '' });
    watch.on('data', ({ status }) => told.push([status, performance.now()]));
    watch.on('error', () => undefined);
    const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
    const statuses = () => told.map(([status]) => status);
    try {
      await expect.poll(statuses).toEqual([NOT_SERVING]);
      await new Promise<void>((resolve, reject) => {
        const load = client.loadModel(
          LoadModelRequest.fromPartial({
            path: writeRandomModel({ type: 'F16' }),
            generation: 1n,
            kvCacheType: KvCacheType.F16,
            maxContext: 64,
            maxSequences: 2,
            maxStepTokens: 32,
          }),
        );
        load.on('data', () => undefined);
        load.on('error', reject);
        load.on('end', resolve);
      });
      await expect.poll(statuses).toEqual([NOT_SERVING, SERVING]);

      const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
      const stream = client.execute();
      stream.on('error', () => undefined);
      let answers = 0;
      let lastSentAt = 0;
      const step = (stepId: number): void => {
        const open = {
          slot: 0,
          tokenIds: words(1, 270),
          promptTokens: 2,
          blockIds: words(1, 2),
          sampling: { topP: 1 },
        };
        const [position, count] = stepId === 1 ? [0, 2] : [stepId, 1];
        const slices = [{ slot: 0, position, count, sample: true }];
        const opens = stepId === 1 ? [open] : [];
        lastSentAt = performance.now();
        stream.write(ExecuteRequest.fromPartial({ stepId: BigInt(stepId), generation: 1n, opens, slices }));
      };
      stream.on('data', () => {
        answers += 1;
        step(answers + 1);
      });
      step(1);
      await expect.poll(statuses, { timeout: 10_000 }).toEqual([NOT_SERVING, SERVING, NOT_SERVING]);
      expect(answers).toBe(HANGS_AT);
      const noticedMs = (told[2]?.[1] ?? 0) - lastSentAt;
      console.log(`the executor told of its hung step after ${noticedMs.toFixed(0)} ms of 1000`);
      expect(noticedMs).toBeGreaterThanOrEqual(1000);
      expect(noticedMs).toBeLessThanOrEqual(1250);
      // Its event loop lives: it answers.
      await new Promise<void>((resolve, reject) => client.getInfo({}, (error) => (error ? reject(error) : resolve())));
    } finally {
      watch.cancel();
      health.close();
      client.close();
      await endProcess(child, 'SIGKILL');
    }
  });
});
