import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Replica, type ReplicaListener } from '../../../src/gateway/replica/replica.js';
import type { GenerationParameters } from '../../../src/gateway/request/generation.js';
import { RequestRunner } from '../../../src/gateway/request/runner.js';
import { GREEDY } from '../../../src/gateway/request/sequence.js';
import { readServedModel } from '../../../src/gateway/request/served-model.js';
import { Router } from '../../../src/gateway/router.js';
import { StopStrings } from '../../../src/gateway/tokenizer/stop-matcher.js';
import { Limiter } from '../../../src/gateway/trust/limiter.js';
import { NO_LIMITS } from '../../../src/gateway/trust/limits.js';
import { KvCacheType } from '../../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { fakeTokens } from '../../doubles/fake-device.js';
import { FakeExecutor } from '../../doubles/fake-executor.js';
import { FAKE_VOCABULARY } from '../../support/fake-gateway.js';
import { writeRandomModel } from '../../support/random-model.js';

const CONTEXT = 2048;
const LOG = pino({ level: 'silent' });
const NOBODY: ReplicaListener = {
  state: () => undefined,
  progress: () => undefined,
  admitted: () => undefined,
  fault: () => undefined,
  restarts: () => undefined,
  recovered: () => undefined,
  orphaned: () => undefined,
  hasRoom: () => undefined,
};

const addressOf = () => `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'executor.sock')}`;

async function listen(address: string, kvBlocks: number): Promise<FakeExecutor> {
  const executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks, stepMs: 1 });
  await executor.listen(address);
  return executor;
}

function replicaAt(address: string, maxSequences: number): Replica {
  const load = {
    path: 'model.gguf',
    kvCacheType: KvCacheType.F32,
    maxContext: CONTEXT,
    maxSequences,
    maxStepTokens: 64,
    kvMemoryBytes: 0n,
    fingerprint: 'model',
  };
  const supervisor = {
    executor: { address },
    load,
    vocabularySize: FAKE_VOCABULARY.size,
    checkModelFile: () => undefined,
    stepTimeoutMs: 60_000,
    loadTimeoutMs: 60_000,
    maxRestarts: 100,
  };
  const queue = { maxQueuedRequests: 64, maxQueuedTokens: 1 << 16 };
  return new Replica({ ...queue, supervisor, pipelineDepth: 2, prefixCache: true, checkEveryStep: true }, NOBODY, LOG);
}

const promptOf = (seed: number) =>
  Array.from({ length: 20 + seed }, (_, i) => FAKE_VOCABULARY.first + ((seed + i) % 40));

const addresses = [addressOf(), addressOf()] as const;
let executors: [FakeExecutor, FakeExecutor];
let replicas: [Replica, Replica];
let router: Router;
let runner: RequestRunner;

beforeEach(async () => {
  executors = [await listen(addresses[0], 200), await listen(addresses[1], 100)];
  replicas = [replicaAt(addresses[0], 4), replicaAt(addresses[1], 2)];
  router = new Router(replicas);
  const { tokenizer, file } = readServedModel(writeRandomModel({ contextLength: CONTEXT }), {});
  file.close();
  const observer = {
    requestStarted: () => undefined,
    firstToken: () => undefined,
    tokens: () => undefined,
    completionEnded: () => undefined,
    requestEnded: () => undefined,
  };
  const limiter = new Limiter(() => NO_LIMITS, { rateLimited: () => undefined });
  runner = new RequestRunner('model', tokenizer, router, observer, limiter, LOG);
  await router.start();
});
afterEach(async () => {
  await router.stop();
  for (const executor of executors) await executor.stop();
});

/** The tokens that follow a prompt. */
function generate(prompt: readonly number[], maxTokens: number): Promise<readonly number[]> {
  const parameters: GenerationParameters = {
    promptIds: Uint32Array.from(prompt),
    sampling: GREEDY,
    stop: {
      strings: new StopStrings([]),
      tokenIds: new Set(),
      includeStopString: false,
      ignoreEos: true,
      maxTokens,
      minTokens: 0,
      includeSpecialTokens: false,
    },
    n: 1,
    priority: 0,
    timeLimitMs: 0,
    promptText: undefined,
  };
  return new Promise((resolve, reject) => {
    const ids: number[] = [];
    const context = { id: 'r', principal: 'p', peer: 'p', trace: undefined, deadline: Number.POSITIVE_INFINITY };
    const sink = {
      chunk: (_index: number, tokenIds: readonly number[]) => ids.push(...tokenIds),
      progress: () => undefined,
      prompt: () => undefined,
      complete: () => resolve(ids),
      error: reject,
    };
    runner.run(parameters, sink, new AbortController().signal, context);
  });
}

it('replicas of one process share requests out, each within its own executor’s limits', async () => {
  const answers = Array.from({ length: 12 }, (_, i) => generate(promptOf(i), 30));
  expect(replicas.map(({ active }) => active)).toEqual([6, 6]);
  expect(replicas.map(({ scheduler }) => scheduler?.blocks.capacity)).toEqual([199, 99]);
  for (const [i, answer] of answers.entries()) {
    expect(await answer).toEqual(fakeTokens(promptOf(i), 30, FAKE_VOCABULARY));
  }
  expect(executors.map(({ failure }) => failure)).toEqual([undefined, undefined]);
  expect(router.counts).toMatchObject({ running: 0, waiting: 0, kvBlocks: 298, freeKvBlocks: 298, serving: 2 });
});

it('one replica’s executor comes and goes, with other limits, and the other replica knows nothing of it', async () => {
  const release = executors[1].stall();
  const [here, there] = [generate(promptOf(1), 40), generate(promptOf(2), 40)];
  expect(replicas.map(({ active }) => active)).toEqual([1, 1]);
  await expect.poll(() => replicas[1].counts.running).toBe(1);
  await executors[1].stop();
  release();
  expect(await here).toEqual(fakeTokens(promptOf(1), 40, FAKE_VOCABULARY));
  await expect.poll(() => replicas[1].state).not.toBe('serving');
  // All of it goes where somebody serves.
  const meanwhile = [3, 4, 5].map((seed) => generate(promptOf(seed), 10));
  expect(replicas.map(({ active }) => active)).toEqual([3, 1]);
  expect(router.isReady).toBe(true);
  await Promise.all(meanwhile);

  executors[1] = await listen(addresses[1], 50);
  expect(await there).toEqual(fakeTokens(promptOf(2), 40, FAKE_VOCABULARY));
  expect(replicas.map(({ scheduler }) => scheduler?.blocks.capacity)).toEqual([199, 49]);
  expect(replicas[0].counts).toMatchObject({ replayed: 0, executors: 1 });
  expect(replicas[1].counts.replayed).toBe(1);
  expect(replicas[1].counts.executors).toBeGreaterThan(1);
});

it('a stream does not go on with an executor that computes other bits than the one before', async () => {
  executors[0].claims = { arithmetic: 'this' };
  expect(replicas[0].replace()).toBe(true);
  await expect.poll(() => replicas[0].arithmetic).toBe('this');
  const running = generate(promptOf(1), 400);
  const ended = expect(running).rejects.toMatchObject({ reason: 'ARITHMETIC_CHANGED' });
  await expect.poll(() => replicas[0].counts.steps).toBeGreaterThan(5);
  executors[0].claims = { arithmetic: 'other' };
  expect(replicas[0].replace()).toBe(true);
  await ended;
  expect(await generate(promptOf(2), 10)).toEqual(fakeTokens(promptOf(2), 10, FAKE_VOCABULARY));
});
