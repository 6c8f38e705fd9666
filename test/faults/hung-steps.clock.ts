import { afterEach, describe, expect, it, vi } from 'vitest';
import { ExecutorSession } from '../../src/gateway/replica/link/executor-session.js';
import { StepWatch } from '../../src/shared/step-watch.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { doubleIsMissing } from '../support/hip-double.js';
import { HANG_TIMEOUT_MS, hangInLaunch } from '../support/hung-launch.js';
import { writeRandomModel } from '../support/random-model.js';

afterEach(() => vi.restoreAllMocks());

describe('a step that does not come back', () => {
  it.each([1000, 1700])('is noticed within its deadline of %s ms and 250 ms', async (floorMs) => {
    const server = await startTestGateway(writeRandomModel(), { stepTimeoutMs: floorMs, stepDelayMs: 4 });
    try {
      const message = request({
        text: 'the fox',
        sampling: { temperature: 0 },
        stop: { maxTokens: 60, ignoreEos: true },
      });
      await generate(server.client, message);
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
      await running;
    } finally {
      await server.stop();
    }
  });
});

it.skipIf(doubleIsMissing() !== undefined)(
  'an executor tells of a hung step within 250 ms of its deadline',
  {
    timeout: 120_000,
  },
  async () => {
    const noticedMs = await hangInLaunch();
    console.log(`the executor told of its hung step after ${noticedMs.toFixed(0)} ms of ${HANG_TIMEOUT_MS}`);
    expect(noticedMs).toBeLessThanOrEqual(HANG_TIMEOUT_MS + 250);
  },
);
