import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { usableProcessors } from '../../src/executor/load/processors.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import type { Replica } from '../../src/gateway/replica/replica.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { packageRoot } from '../../src/shared/package.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { CHAT_TEMPLATE, mixedRequest, seen, whenever } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier } from '../support/run-size.js';

const STREAMS = byTier({ quick: 16, default: 16, full: 64 });
const KILLS = byTier({ quick: 5, default: 5, full: 20 });
const threads = Math.max(1, Math.floor(usableProcessors() / 2));
const spawned = (more: Record<string, unknown> = {}) => ({ spawn: { device: 'host' as const, threads, ...more } });

function startTwo(options: Partial<GatewayOptions> = {}): Promise<TestGateway> {
  const executor = spawned({ stepDelayMs: 10 });
  return startTestGateway(writeRandomModel({ contextLength: 1024, chatTemplate: CHAT_TEMPLATE }), {
    ...{ executor, moreExecutors: [executor], maxSequences: 24, maxStepTokens: 256 },
    ...{ maxRestarts: 100, stepTimeoutMs: 10_000 },
    ...options,
  });
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const inStep = ({ scheduler }: Replica) => (scheduler?.stepsInFlight ?? 0) > 0;

/** Kills the executor of either replica in a step that is under way, each time another's turn. @returns kills */
async function killEither({ gateway }: TestGateway, count: number, isOver: () => boolean): Promise<number> {
  let random = 7;
  const killed = new Set<number>();
  for (let kill = 0; kill < count; kill++) {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0;
    await wait(5 + ((random >>> 8) % 120));
    const first = (random >>> 20) % 2;
    const order = [gateway.replicas[first], gateway.replicas[1 - first]] as Replica[];
    const next = () =>
      order.find((replica) => replica.pid !== undefined && !killed.has(replica.pid) && inStep(replica));
    await whenever(() => isOver() || next() !== undefined);
    const pid = next()?.pid;
    if (pid === undefined) return kill;
    killed.add(pid);
    process.kill(pid, 'SIGKILL');
  }
  return count;
}

describe('two replicas', () => {
  it(`${STREAMS} streams survive ${KILLS} kills of either executor in its steps`, async () => {
    const server = await startTwo();
    try {
      const run = (i: number) => generate(server.client, mixedRequest(i));
      const indices = Array.from({ length: STREAMS }, (_, i) => i);
      const undisturbed = await Promise.all(indices.map(run));
      let areKilled = false;
      let hasFailed = false;
      const running = Promise.all(
        indices.map(async (i) => {
          const answers: Generated[] = [];
          // Again until all kills are over: on a busy machine the other replica may end all streams before one is back.
          do answers.push(await run(i));
          while (!areKilled);
          return answers;
        }),
      );
      running.catch(() => {
        hasFailed = true;
      });
      expect(await killEither(server, KILLS, () => hasFailed)).toBe(KILLS);
      areKilled = true;
      for (const [i, answers] of (await running).entries()) {
        for (const answer of answers) expect(seen(answer), `stream ${i}`).toEqual(seen(undisturbed[i] as Generated));
      }
      for (const { counts, scheduler } of server.gateway.replicas) {
        expect(counts).toMatchObject({ quarantined: 0, running: 0, waiting: 0 });
        await expect.poll(() => scheduler?.stepsInFlight).toBe(0);
        scheduler?.check();
      }
    } finally {
      await server.stop();
    }
  });

  it('streams of one that is killed go on with the other before it is back', async () => {
    const server = await startTwo();
    try {
      const message = (i: number) =>
        request({ text: `the fox ${i}`, sampling: { temperature: 0 }, stop: { maxTokens: 300, ignoreEos: true } });
      const answers = Array.from({ length: 8 }, (_, i) => generate(server.client, message(i)));
      const [here, there] = server.gateway.replicas as [Replica, Replica];
      await expect.poll(() => [here.counts.running, there.counts.running]).toEqual([4, 4]);
      process.kill(here.pid as number, 'SIGKILL');
      await whenever(() => there.counts.running === 8);
      expect(here.state).not.toBe('serving');
      await Promise.all(answers);
      // And new ones come to who is back.
      await expect.poll(() => here.state).toBe('serving');
      const later = Array.from({ length: 2 }, (_, i) => generate(server.client, message(i)));
      await expect.poll(() => [here.counts.running, there.counts.running]).toEqual([1, 1]);
      await Promise.all(later);
    } finally {
      await server.stop();
    }
  });

  it('are replaced one after the other under load, and no stream is lost or changed', async () => {
    const server = await startTwo();
    try {
      const run = (i: number) => generate(server.client, mixedRequest(i));
      const indices = Array.from({ length: 32 }, (_, i) => i);
      const undisturbed = await Promise.all(indices.map(run));
      const before = server.gateway.replicas.map(({ pid }) => pid);
      const running = Promise.all(indices.map(run));
      await whenever(() => server.gateway.replicas.every(inStep));
      await server.gateway.replaceExecutors();
      expect(server.gateway.replicas.map(({ pid }, i) => pid === before[i])).toEqual([false, false]);
      expect((await running).map(seen)).toEqual(undisturbed.map(seen));
      expect(server.gateway.faults).toEqual([]);
    } finally {
      await server.stop();
    }
  });

  it('one that stands by computes nothing, and takes over from the other', async () => {
    const server = await startTwo({ standby: 1 });
    try {
      const message = request({
        text: 'the fox',
        sampling: { temperature: 0.8, seed: 4n },
        stop: { maxTokens: 200, ignoreEos: true },
      });
      const undisturbed = await generate(server.client, message);
      const [first, second] = server.gateway.replicas as [Replica, Replica];
      expect([first.counts.steps > 0, second.counts.steps]).toEqual([true, 0]);
      const answers = [generate(server.client, message), generate(server.client, message)];
      await whenever(() => first.counts.running === 2);
      expect(second.counts.running).toBe(0);
      process.kill(first.pid as number, 'SIGKILL');
      await whenever(() => second.counts.running === 2);
      for (const answer of await Promise.all(answers)) expect(seen(answer)).toEqual(seen(undisturbed));
    } finally {
      await server.stop();
    }
  });

  it.each(['abort', 'sticky'])('a request that faults by %s takes neither of them along for good', async (fault) => {
    const POISON = 295;
    const executor = spawned({ plantFault: `${fault}@${POISON}` });
    const server = await startTestGateway(writeRandomModel(), {
      ...{ executor, moreExecutors: [executor], maxSequences: 16, maxRestarts: 20, stepTimeoutMs: 10_000 },
    });
    try {
      const run = (i: number) =>
        generate(
          server.client,
          request({
            tokens: [1, 290 - (i % 20), 3 + i, ...(i === 20 ? [POISON] : [])],
            sampling: { temperature: 0.7, seed: BigInt(i), logitBias: { [POISON]: -100 } },
            stop: { maxTokens: 20, ignoreEos: true },
          }),
        ).catch((error: ServiceError) => error);
      const answers = await Promise.all(Array.from({ length: 32 }, (_, i) => run(i)));
      expect(answers.flatMap((answer, i) => ('code' in answer ? [i] : []))).toEqual([20]);
      const error = answers[20] as ServiceError;
      expect([status[error.code], errorInfo(error)?.reason]).toEqual(['INTERNAL', 'REQUEST_QUARANTINED']);
      const executors = server.gateway.replicas.reduce((sum, { counts }) => sum + counts.executors, 0);
      expect(executors).toBeLessThanOrEqual(2 + 8);
    } finally {
      await server.stop();
    }
  });
});

/** Host kernels of another build: its library does the same, but its code has another digest. */
function kernelsOfAnotherBuild(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-other-build-'));
  const built = path.join(packageRoot, 'build', 'kernels', 'host');
  const file = readdirSync(built).findLast((name) => name.endsWith('.so')) as string;
  // The loader ignores what follows a library's sections.
  const library = Buffer.concat([readFileSync(path.join(built, file)), Buffer.of(0)]);
  const sha256 = createHash('sha256').update(library).digest('hex');
  mkdirSync(path.join(folder, 'host'));
  writeFileSync(path.join(folder, 'host', file), library);
  writeFileSync(path.join(folder, 'host', 'manifest.json'), JSON.stringify({ files: [{ file, sha256 }] }));
  return folder;
}

it('no stream changes numerics: of replicas with other kernels each waits for its own', async () => {
  const model = writeRandomModel({ contextLength: 1024 });
  const kernels = kernelsOfAnotherBuild();
  const executors = [spawned({ stepDelayMs: 5 }), spawned({ stepDelayMs: 5, kernels })] as const;
  const server = await startTestGateway(model, {
    ...{ executor: executors[0], moreExecutors: [executors[1]], maxSequences: 8, maxRestarts: 100 },
  });
  try {
    const [here, there] = server.gateway.replicas as [Replica, Replica];
    expect(there.numerics).not.toBe(here.numerics);
    const message = request({
      text: 'the old fox ran',
      sampling: { temperature: 0.8, seed: 5n },
      // Long beside the time in which a busy machine looks at the counts below.
      stop: { maxTokens: 900, ignoreEos: true },
    });
    const texts = async (count: number) => {
      const answers = await Promise.all(Array.from({ length: count }, () => generate(server.client, message)));
      return answers.map(({ tokenIds }) => tokenIds.join());
    };
    const undisturbed = new Set(await texts(2));
    const answers = texts(8);
    await expect.poll(() => [here.counts.running, there.counts.running]).toEqual([4, 4]);
    process.kill(here.pid as number, 'SIGKILL');
    await whenever(() => here.state !== 'serving');
    await expect.poll(() => here.counts.running + here.counts.waiting).toBe(4);
    expect(there.counts.running).toBe(4);
    for (const text of await answers) expect(undisturbed).toContain(text);
  } finally {
    await server.stop();
  }
});
