import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InferenceServiceClient } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { endProcess, startRocmforge } from '../support/command-line.js';
import { restoreEnvironment } from '../support/environment.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';
const hasFaketime = existsSync(FAKETIME);
if (!hasFaketime)
  console.log(`skipped, the wall clock cannot be set here: ${FAKETIME} is missing (Debian: libfaketime)`);

const model = writeRandomModel();
const message = request({
  text: 'the old fox',
  sampling: { temperature: 0.8, seed: 4n },
  stop: { maxTokens: 120, ignoreEos: true },
});
const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** A gateway in a process of its own, as users have it. */
async function startGatewayProcess(env: Readonly<Record<string, string>> = {}) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const address = `unix:${path.join(folder, 'gateway.sock')}`;
  const before = { ...process.env };
  Object.assign(process.env, env);
  const args = [
    '--model',
    model,
    '--listen',
    address,
    '--device',
    'host',
    '--step-delay-ms',
    '8',
    '--state-dir',
    folder,
  ];
  const { child } = await startRocmforge(/^serving /, 'serve', ...args).finally(() => {
    restoreEnvironment(before);
  });
  let log = '';
  child.stderr?.on('data', (data) => {
    log += data;
  });
  const client = new InferenceServiceClient(address, credentials.createInsecure());
  return {
    pid: child.pid as number,
    client,
    /** Executors lost so far. */
    lost: () => log.split('\n').filter((line) => line.includes('"from":"serving"')).length,
    executor: () => executorOf(child.pid as number),
    stop: async () => {
      client.close();
      await endProcess(child, 'SIGKILL');
    },
  };
}

function executorOf(gateway: number): number {
  const child = readdirSync('/proc').find((name) => {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, 'utf8'))?.[1]) === gateway;
    } catch {
      return false;
    }
  });
  return Number(child);
}

describe('a gateway that does not run for a while', () => {
  let server: Awaited<ReturnType<typeof startGatewayProcess>>;
  let undisturbed: readonly number[];
  beforeAll(async () => {
    server = await startGatewayProcess();
    undisturbed = (await generate(server.client, message)).tokenIds;
  });
  afterAll(() => server.stop());

  it.each([100, 500, 2000, 5000])('of %s ms blames no executor, and goes on where it was', async (ms) => {
    const running = generate(server.client, message);
    await wait(200);
    process.kill(server.pid, 'SIGSTOP');
    await wait(ms);
    process.kill(server.pid, 'SIGCONT');
    expect((await running).tokenIds).toEqual(undisturbed);
    expect(server.lost()).toBe(0);
  });

  it.each([100, 500, 1000])('an executor that does not for %s ms is waited for', async (ms) => {
    const running = generate(server.client, message);
    await wait(200);
    const executor = server.executor();
    process.kill(executor, 'SIGSTOP');
    await wait(ms);
    process.kill(executor, 'SIGCONT');
    expect((await running).tokenIds).toEqual(undisturbed);
    expect(server.lost()).toBe(0);
  });

  it('both for 5 s: nobody is lost', async () => {
    const running = generate(server.client, message);
    await wait(200);
    const executor = server.executor();
    process.kill(server.pid, 'SIGSTOP');
    process.kill(executor, 'SIGSTOP');
    await wait(5000);
    process.kill(server.pid, 'SIGCONT');
    await wait(300);
    process.kill(executor, 'SIGCONT');
    expect((await running).tokenIds).toEqual(undisturbed);
    expect(server.lost()).toBe(0);
  });

  it('an executor that does not for 5 s is replaced, and no token is lost', async () => {
    const running = generate(server.client, message);
    await wait(200);
    const executor = server.executor();
    process.kill(executor, 'SIGSTOP');
    await wait(5000);
    expect((await running).tokenIds).toEqual(undisturbed);
    expect(server.lost()).toBe(1);
  });
});

it('a stall of the gateway does not make it patient: the next hung step is noticed as soon as one before', {
  timeout: 60_000,
}, async () => {
  const server = await startTestGateway(model, { stepTimeoutMs: 1000, stepDelayMs: 4 });
  try {
    const noticedAfterMs = async (): Promise<number> => {
      const running = generate(server.client, message);
      running.catch(() => undefined);
      await wait(150);
      process.kill(server.gateway.executorPid() as number, 'SIGSTOP');
      const stoppedAt = performance.now();
      while (server.gateway.executorState() === 'serving') await wait(5);
      const ms = performance.now() - stoppedAt;
      await running;
      return ms;
    };
    await generate(server.client, message);
    const before = await noticedAfterMs();
    const running = generate(server.client, message);
    await wait(150);
    const until = performance.now() + 3000;
    while (performance.now() < until);
    await running;
    expect(server.gateway.executorEpoch()).toBe(2);
    const after = await noticedAfterMs();
    console.log(
      `noticed after ${before.toFixed(0)} ms, and after ${after.toFixed(0)} ms when there had been a stall of 3 s`,
    );
    // The watch's own interval and what one stall may look like: 20 × 100 ms at most.
    expect(after).toBeLessThanOrEqual(2000 + 250);
  } finally {
    await server.stop();
  }
});

it.skipIf(!hasFaketime)(
  'the wall clock may be set by a year, either way, in the middle of streams and of restarts',
  {
    timeout: 120_000,
  },
  async () => {
    const clock = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'clock');
    writeFileSync(clock, '+0');
    const server = await startGatewayProcess({
      LD_PRELOAD: FAKETIME,
      FAKETIME_TIMESTAMP_FILE: clock,
      FAKETIME_NO_CACHE: '1',
      // Clocks that cannot be set on a real machine are not set here.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    });
    try {
      const undisturbed = (await generate(server.client, message)).tokenIds;
      let lost = 0;
      for (const offset of ['+365d', '-365d', '+0']) {
        const streaming = generate(server.client, message);
        await wait(200);
        writeFileSync(clock, offset);
        expect((await streaming).tokenIds, `set by ${offset}`).toEqual(undisturbed);
        expect(server.lost()).toBe(lost);

        const restarted = generate(server.client, message);
        await wait(200);
        process.kill(server.executor(), 'SIGKILL');
        await wait(100);
        writeFileSync(clock, offset === '+0' ? '+3600' : '+0');
        expect((await restarted).tokenIds, `set while an executor starts, ${offset}`).toEqual(undisturbed);
        lost += 1;
        expect(server.lost()).toBe(lost);
      }
    } finally {
      await server.stop();
    }
  },
);
