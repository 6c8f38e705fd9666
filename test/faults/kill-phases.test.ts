import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { packageRoot } from '../../src/shared/package.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const PROMPT = 900;
const TOKENS = 40;
const model = writeRandomModel({ contextLength: 1024, layers: 4 });
const message = request({
  tokens: Array.from({ length: PROMPT }, (_, i) => 3 + ((i * 31) % 250)),
  sampling: { temperature: 0.7, seed: 9n },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});

/** Waits, looking each millisecond, until something is so. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
}

const kill = ({ gateway }: TestGateway) => process.kill(gateway.executorPid() as number, 'SIGKILL');

/** Kills the executor in the middle of decoding, and waits until the next one is at `state`. */
async function untilNext(server: TestGateway, state: string): Promise<void> {
  const first = server.gateway.executorPid();
  kill(server);
  await until(() => {
    const pid = server.gateway.executorPid();
    return pid !== undefined && pid !== first && server.gateway.executorState() === state;
  });
}

/** Called when an executor tells of its load's progress. */
let onLoad: () => void = () => undefined;

/** Steps that the scheduler has planned and that are not back. */
const inFlight = ({ gateway }: TestGateway) => gateway.replica.scheduler?.stepsInFlight ?? 0;

describe('an executor that is killed', () => {
  it.each<[string, string | undefined, (server: TestGateway, tokens: () => number) => Promise<number>]>([
    [
      'in its prefill',
      'serving',
      async (server) => {
        await until(() => inFlight(server) > 0);
        kill(server);
        return 1;
      },
    ],
    [
      'in the middle of decoding',
      'serving',
      async (server, tokens) => {
        await until(() => tokens() >= TOKENS / 2);
        kill(server);
        return 1;
      },
    ],
    [
      'as soon as it is started',
      undefined,
      async (server, tokens) => {
        await until(() => tokens() >= 5);
        await untilNext(server, 'starting');
        kill(server);
        return 2;
      },
    ],
    [
      'while it loads the model',
      'loading',
      async (server, tokens) => {
        await until(() => tokens() >= 5);
        // Word of a load's progress may come when the load has ended: then the executor is killed once more.
        const { faults } = server.gateway;
        let kills = 1;
        onLoad = () => {
          onLoad = () => undefined;
          kills += 1;
          kill(server);
        };
        const killLoading = onLoad;
        kill(server);
        await until(() => faults.length === 2);
        while (faults.at(-1)?.record?.phase !== 'loading' && kills < 30) {
          const killed = faults.length;
          onLoad = killLoading;
          await until(() => faults.length > killed);
        }
        return kills;
      },
    ],
    [
      'in its first step',
      'serving',
      async (server, tokens) => {
        await until(() => tokens() >= 5);
        await untilNext(server, 'serving');
        await until(() => inFlight(server) > 0);
        kill(server);
        return 2;
      },
    ],
  ])('%s costs no token', async (_name, phase, reach) => {
    const server = await startTestGateway(model, {
      maxStepTokens: 128,
      maxRestarts: 40,
      stepDelayMs: 2,
      onProgress: () => onLoad(),
    });
    try {
      const undisturbed = await generate(server.client, message);
      const tokens: number[] = [];
      const call = server.client.generateStream(message);
      const ended = new Promise<void>((resolve, reject) => {
        call.on('data', ({ event }) => event?.$case === 'chunk' && tokens.push(...event.value.tokenIds));
        call.on('error', reject);
        call.on('end', resolve);
      });
      const kills = await reach(server, () => tokens.length);
      await ended;
      expect(tokens).toEqual(undisturbed.tokenIds);
      const { faults } = server.gateway;
      expect(faults.map(({ signal }) => signal)).toEqual(Array(kills).fill('SIGKILL'));
      expect(faults.at(-1)?.record?.phase).toBe(phase);
      expect(server.gateway.executorEpoch()).toBe(1 + kills);
      expect(server.gateway.replica.counts.quarantined).toBe(0);
    } finally {
      await server.stop();
    }
  });

  it('in its very first load is started again, and the gateway comes up', async () => {
    const killedInFirstLoad = async (): Promise<TestGateway> => {
      let killed = false;
      const server = await startTestGateway(model, {
        onProgress: () => {
          if (killed) return;
          killed = true;
          const [pid] = executorsOf(process.pid);
          process.kill(pid as number, 'SIGKILL');
        },
      });
      expect(killed).toBe(true);
      return server;
    };
    // Word of a load's progress may come when the load has ended: then another gateway is tried.
    let server = await killedInFirstLoad();
    for (let tries = 1; tries < 10 && server.gateway.faults[0]?.record?.phase !== 'loading'; tries++) {
      await server.stop();
      server = await killedInFirstLoad();
    }
    try {
      expect(server.gateway.executorEpoch()).toBe(2);
      expect(server.gateway.faults[0]?.record?.phase).toBe('loading');
      expect((await generate(server.client, message)).tokenIds).toHaveLength(TOKENS);
    } finally {
      await server.stop();
    }
  });
});

describe('an executor that dies', () => {
  it.each([
    // The one that was killed first, and one more than may die in a minute.
    ['by itself', 'process.exit(3)', {}, 1 + 4],
    // Killed from outside it has not failed, however often: the time counts.
    ['by a signal', "process.kill(process.pid, 'SIGKILL')", { recoveryTimeoutMs: 1500 }, undefined],
  ])(
    'at each start %s: streams end with UNAVAILABLE, and once it starts again requests are served',
    async (_how, end, timeout, epoch) => {
      const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
      const broken = path.join(folder, 'broken');
      const program = path.join(folder, 'executor.mjs');
      const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
      writeFileSync(
        program,
        `import { existsSync } from 'node:fs';
       if (existsSync(${JSON.stringify(broken)})) ${end};
       else await import(${JSON.stringify(main)});`,
      );
      const spawn = { device: 'host' as const, program, stepDelayMs: 5 };
      const server = await startTestGateway(model, {
        executor: { spawn },
        maxRestarts: 3,
        probeIntervalMs: 1000,
        ...timeout,
      });
      try {
        const running = generate(server.client, message).catch((error: ServiceError) => error);
        writeFileSync(broken, '');
        kill(server);
        const error = (await running) as ServiceError;
        expect(errorInfo(error)?.reason).toBe('EXECUTOR_UNAVAILABLE');
        expect(errorInfo(error)?.metadata.retry_delay_ms).toBe('30000');
        expect(server.gateway.executorState()).toBe('failed');
        if (epoch !== undefined) expect(server.gateway.executorEpoch()).toBe(epoch);
        const refused = await generate(server.client, message).catch((thrown: ServiceError) => thrown);
        expect(errorInfo(refused as ServiceError)?.reason).toBe('EXECUTOR_UNAVAILABLE');

        rmSync(broken);
        await expect.poll(() => server.gateway.executorState(), { interval: 200 }).toBe('serving');
        expect((await generate(server.client, message)).tokenIds).toHaveLength(TOKENS);
      } finally {
        await server.stop();
      }
    },
  );

  it('in every first step: failed after the bound', async () => {
    const spawn = { device: 'host' as const, plantFault: 'exit' };
    const server = await startTestGateway(model, { executor: { spawn }, maxRestarts: 3 });
    try {
      const messages = Array.from({ length: 16 }, (_, i) => request({ tokens: [1, 10 + i], stop: { maxTokens: 4 } }));
      const errors = await Promise.all(
        messages.map((each) => generate(server.client, each).catch((thrown: ServiceError) => thrown)),
      );
      const reasons = errors.map((error) => errorInfo(error as ServiceError)?.reason);
      // One request may have been found to fault alone, which is true of it.
      const others = reasons.filter((reason) => reason !== 'EXECUTOR_UNAVAILABLE');
      expect([[], ['REQUEST_QUARANTINED']]).toContainEqual(others);
      expect(server.gateway.executorState()).toBe('failed');
      expect(server.gateway.executorEpoch()).toBe(1 + 3);
    } finally {
      await server.stop();
    }
  });
});
