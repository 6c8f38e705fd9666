import { readdirSync } from 'node:fs';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';
import { HealthCheckResponse_ServingStatus, HealthClient } from '../../src/shared/generated/grpc/health/v1/health.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { killEachTime, killStreams, seen, startForKills } from '../support/kill-run.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier, isFull, isQuick, seed } from '../support/run-size.js';

const STREAMS = byTier({ quick: 24, default: 24, full: 64 });
const KILLS = byTier({ quick: 4, default: 4, full: 20 });
const SEEDS = Array.from({ length: byTier({ quick: 1, default: 1, full: 10 }) }, (_, i) => seed(1 + i));

const openFiles = () => readdirSync('/proc/self/fd').length;

describe('an executor that is killed 10 ms after each time it serves', () => {
  it.each(isFull ? [3, 5] : [3])('%s times in a row costs no token, and nobody is accused', async (count) => {
    const server = await startTestGateway(writeRandomModel({ contextLength: 2048 }), { stepDelayMs: 3 });
    try {
      const message = request({
        text: 'the old fox ran',
        sampling: { temperature: 0.8, seed: 3n },
        stop: { maxTokens: 364, ignoreEos: true },
      });
      const undisturbed = await generate(server.client, message);
      let isOver = false;
      const running = generate(server.client, message).finally(() => {
        isOver = true;
      });
      running.catch(() => undefined);
      const { kills, inStep } = await killEachTime(
        server,
        count,
        () => 10,
        () => isOver,
      );
      const disturbed = await running;
      console.log(`${kills} kills, ${inStep} in a step: ${disturbed.tokenIds.length} tokens`);
      expect(seen(disturbed)).toEqual(seen(undisturbed));
      expect([kills, inStep]).toEqual([count, count]);
      expect(server.gateway.replica.counts.quarantined).toBe(0);
    } finally {
      await server.stop();
    }
  });
});

/** Experts behind a dense block, with a bias of the choice; states; and, where more is asked for, windows and sinks. */
const FAMILIES = byTier<readonly RandomFamilyName[]>({
  quick: [],
  default: ['qwen35'],
  full: [
    'glm4moe',
    'qwen35',
    'gpt-oss',
    'lfm2',
    'gemma4',
    'granitehybrid',
    'falcon-h1',
    'deepseek2',
    'qwen3next',
    'nemotron_h_moe',
  ],
});
const RUNS = [...SEEDS.map((seed) => ['llama', seed] as const), ...FAMILIES.map((family) => [family, 1] as const)];

it.each(RUNS)(
  `${STREAMS} streams survive ${KILLS} kills of the executor in its steps: %s, seed %s`,
  async (family, seed) => {
    const server = await startForKills(family);
    try {
      // With the client's connection.
      await generate(server.client, request({ text: 'the', stop: { maxTokens: 1 } }));
      let filesBefore = 0;
      const states = new Set<HealthCheckResponse_ServingStatus>();
      const health = new HealthClient(server.address, credentials.createInsecure());
      const watch = health.watch({ service: '' });
      watch.on('data', ({ status }) => states.add(status));
      watch.on('error', () => undefined);

      // With the client's connection and all threads: what comes after it must go with the executors.
      const count = (): void => {
        filesBefore = openFiles();
      };
      const { kills, inStep, undisturbed, disturbed } = await killStreams(server, STREAMS, KILLS, seed, count);
      watch.cancel();
      health.close();
      const equal = disturbed.filter((answer, i) => {
        return (
          !(answer instanceof Error) && JSON.stringify(seen(answer), big) === JSON.stringify(seen(undisturbed[i]!), big)
        );
      });
      console.log(
        `${family}, seed ${seed}: ${kills} kills, ${inStep} in a step, ${equal.length} of ${STREAMS} streams equal`,
      );

      for (const [i, answer] of disturbed.entries()) {
        if (answer instanceof Error) throw answer;
        expect(seen(answer), `stream ${i}`).toEqual(seen(undisturbed[i] as Generated));
      }
      expect(kills).toBe(KILLS);
      // Most of them, or the suite shows little: an executor that has just begun is given work at once.
      expect(inStep).toBeGreaterThan(KILLS / 2);
      expect(server.gateway.replica.counts.quarantined).toBe(0);
      const { SERVING, NOT_SERVING } = HealthCheckResponse_ServingStatus;
      expect(states).toEqual(new Set([SERVING, NOT_SERVING]));

      const { replayed, keptTokens, recomputedTokens } = server.gateway.replica.counts;
      console.log(`${replayed} sequences resumed, ${keptTokens} tokens kept, ${recomputedTokens} computed again`);
      expect(keptTokens).toBeGreaterThan(0);
      // Each successor continues at once: none is refused what the one before has left.
      expect(server.gateway.replica.counts.executors).toBe(1 + kills);

      const scheduler = server.gateway.replica.scheduler;
      await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
      scheduler?.check();
      expect(scheduler?.blocks.freeCount).toBe(scheduler?.blocks.capacity);
      await expect.poll(openFiles).toBeLessThanOrEqual(filesBefore + 1);
    } finally {
      await server.stop();
    }
  },
);

describe('positions that are computed again behind a kill', () => {
  // Streams with the same tokens so far share their last block, and only one continues there: no two of these have.
  const streamed = (i: number) =>
    request({
      text: `${i} ${'the old fox ran to the sea '.repeat(1 + (i % 9))}`,
      sampling: { temperature: 0.8, seed: BigInt(i) },
      stop: { maxTokens: 100, ignoreEos: true },
    });

  it.each([true, false])('are none where memory is kept, else all: %s', async (keepsMemory) => {
    const server = await startForKills('llama', { keepsMemory });
    try {
      const [streams, kills] = isQuick ? [8, 3] : [64, 20];
      const run = await killStreams(server, streams, kills, seed(1), () => undefined, streamed);
      expect(run.kills).toBe(kills);
      expect(run.disturbed.map((answer) => answer instanceof Error || seen(answer))).toEqual(run.undisturbed.map(seen));
      const { replayed, keptTokens, recomputedTokens } = server.gateway.replica.counts;
      console.log(
        `${run.kills} kills, ${replayed} sequences resumed: ${keptTokens} tokens kept, ${recomputedTokens} computed again`,
      );
      expect(replayed).toBeGreaterThan(0);
      if (keepsMemory) expect(recomputedTokens).toBe(0);
      expect(keepsMemory ? keptTokens : recomputedTokens).toBeGreaterThan(BLOCK_TOKENS * replayed);
    } finally {
      await server.stop();
    }
  });
});

const big = (_: string, value: unknown) => (typeof value === 'bigint' ? value.toString() : value);
