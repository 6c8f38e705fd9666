import { statSync } from 'node:fs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';
import { logLevel, logSink, setLogLevel } from '../../src/shared/log.js';
import type { LogLevel } from '../../src/shared/log-levels.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';
import { seen } from '../support/kill-run.js';
import { writeRandomModel } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';
import { connectKeeper, flipBit, keeperMemory } from '../support/stray-writes.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped, no HIP device of the tests: ${missing}`);

const TOKENS = 32;
const message = request({
  text: 'the old fox ran to the sea and the wind sang a long night',
  sampling: { temperature: 0.8, seed: 3n },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});

describe.skipIf(missing !== undefined)('memory of a GPU that outlives executors', () => {
  // Room for a spare executor, too.
  const double = new HipDouble({ memoryBytes: 2 ** 33 });
  double.install();
  const model = writeRandomModel({ type: 'F16', hidden: 128, contextLength: 256 });
  let server: TestGateway | undefined;
  afterEach(async () => {
    await server?.stop();
    server = undefined;
  });

  const start = async (options: Parameters<typeof startTestGateway>[1] = {}): Promise<TestGateway> => {
    const limits = {
      maxSequences: 4,
      maxStepTokens: 64,
      maxContext: 256,
      kvCacheType: 'f16',
      hasSpare: false,
    } as const;
    server = await startTestGateway(model, { executor: { spawn: { device: 'hip' } }, ...limits, ...options });
    return server;
  };
  const executorPid = () => server?.gateway.executorPid() as number;

  /** Streams twice, the second time with a disturbance once some tokens have come. */
  async function disturbed(disturb: () => Promise<void> | void): Promise<[Generated, Generated]> {
    const { client, gateway } = server as TestGateway;
    const undisturbed = await generate(client, message);
    const running = generate(client, message);
    const emitted = () => gateway.replica.scheduler?.oldestStep?.slices[0]?.position ?? 0;
    await expect.poll(emitted, { interval: 1 }).toBeGreaterThan(30);
    await disturb();
    return [undisturbed, await running];
  }
  /** Bytes that crossed the bus to the device. */
  const bytesIn = () =>
    double.calls().reduce((sum, call) => sum + (call.startsWith('in ') ? Number(call.slice(3)) : 0), 0);

  const graphs = () => double.calls().filter((call) => call.startsWith('instantiate ')).length;

  it('the next executor finds weights and KV blocks, and loads nothing', async () => {
    const before = bytesIn();
    const graphsBefore = graphs();
    const { gateway } = await start();
    const loaded = bytesIn() - before;
    // Captured once to measure their memory, and once to serve.
    const each = (graphs() - graphsBefore) / 2;
    let afterKill = 0;
    let graphsAfterKill = 0;
    const [first, second] = await disturbed(() => {
      afterKill = bytesIn();
      graphsAfterKill = graphs();
      process.kill(executorPid(), 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    const { replayed, recomputedTokens, keptTokens, restoredWeights } = gateway.replica.counts;
    expect([replayed, restoredWeights]).toEqual([1, 0]);
    expect(recomputedTokens).toBe(0);
    expect(keptTokens).toBeGreaterThanOrEqual(BLOCK_TOKENS);
    expect(loaded - (bytesIn() - afterKill)).toBeGreaterThan(0.9 * statSync(model).size);
    // It knows their memory, and captures them when steps need them or nothing runs.
    await expect.poll(() => graphs() - graphsAfterKill).toBe(each);
  });

  it('the next executor has begun to start before it is needed, where there is no spare', async () => {
    await start();
    const waiting = () => executorsOf(process.pid).filter((pid) => pid !== executorPid());
    await expect.poll(waiting).toHaveLength(1);
    const [next] = waiting();
    const before = bytesIn();
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(bytesIn()).toBe(before);
    const [first, second] = await disturbed(() => {
      process.kill(executorPid(), 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    expect(executorPid()).toBe(next);
    await expect.poll(waiting).toHaveLength(1);
    // Nothing is left of it with the gateway.
    const [left] = waiting();
    await server?.stop();
    server = undefined;
    await expect.poll(() => executorsOf(process.pid)).not.toContain(left);
  });

  it('KV blocks of a model that was unloaded come back from the host’s memory', async () => {
    const { client, gateway } = await start({ kvHostBytes: 1 << 30 });
    const first = await generate(client, message);
    gateway.replica.unloadModel();
    await expect.poll(() => gateway.executorState()).toBe('unloaded');
    expect(gateway.replica.counts.savedBytes).toBeGreaterThan(0);
    const second = await generate(client, message);
    expect(seen(second)).toEqual(seen(first));
    const { restoredBlocks, damagedBlocks, savedBytes } = gateway.replica.counts;
    expect(restoredBlocks).toBeGreaterThan(1);
    expect([damagedBlocks, savedBytes]).toEqual([0, 0]);
    expect(second.complete?.usage?.cachedTokens).toBeGreaterThanOrEqual(BLOCK_TOKENS);
  });

  it('weights that were damaged meanwhile are loaded again, and no token is wrong', async () => {
    const { gateway } = await start();
    const [first, second] = await disturbed(async () => {
      const pid = executorPid();
      process.kill(pid, 'SIGSTOP');
      flipBit(await keeperMemory(pid, 'weights'), 70_001);
      process.kill(pid, 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    expect(gateway.replica.counts.restoredWeights).toBe(1);
  });

  it('after a fault of the executor itself the next one has the blocks that are as they were', async () => {
    const { gateway } = await start();
    const before = gateway.replica.counts.keptTokens;
    const [first, second] = await disturbed(() => {
      process.kill(executorPid(), 'SIGSEGV');
    });
    expect(seen(second)).toEqual(seen(first));
    const { keptTokens, damagedBlocks } = gateway.replica.counts;
    expect(keptTokens - before).toBeGreaterThanOrEqual(BLOCK_TOKENS);
    expect(damagedBlocks).toBe(0);
    const [third, fourth] = await disturbed(async () => {
      const pid = executorPid();
      const kv = await keeperMemory(pid, 'kv');
      process.kill(pid, 'SIGSTOP');
      // Each page: every block of every layer.
      for (let at = 0; at < kv.bytes; at += 512) flipBit(kv, at);
      process.kill(pid, 'SIGSEGV');
      process.kill(pid, 'SIGCONT');
    });
    expect(seen(fourth)).toEqual(seen(third));
    expect(gateway.replica.counts.keptTokens).toBe(keptTokens);
    expect(gateway.replica.counts.damagedBlocks).toBeGreaterThan(0);
  });

  it('after a fault that damaged weights, too, no block is taken for what it was', async () => {
    const { gateway } = await start();
    const [first, second] = await disturbed(async () => {
      const pid = executorPid();
      const weights = await keeperMemory(pid, 'weights');
      process.kill(pid, 'SIGSTOP');
      flipBit(weights, 70_001);
      process.kill(pid, 'SIGSEGV');
      process.kill(pid, 'SIGCONT');
    });
    expect(seen(second)).toEqual(seen(first));
    const { restoredWeights, keptTokens } = gateway.replica.counts;
    expect([restoredWeights, keptTokens]).toEqual([1, 0]);
  });

  it.runIf(isFull)('with the keeper all of it is lost, and another executor and keeper begin', async () => {
    const { gateway } = await start();
    const [first, second] = await disturbed(async () => {
      const keeper = await connectKeeper(executorPid());
      process.kill(keeper.state.pid, 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    expect(gateway.replica.counts.keptTokens).toBe(0);
    const [again, andAgain] = await disturbed(() => {
      process.kill(executorPid(), 'SIGKILL');
    });
    expect(seen(andAgain)).toEqual(seen(again));
    expect(gateway.replica.counts.keptTokens).toBeGreaterThan(0);
  });

  it('a spare executor has the same memory, and takes over', async () => {
    const { gateway } = await start({ hasSpare: undefined });
    await expect.poll(() => gateway.replica.counts.spares).toBe(1);
    expect(gateway.replica.counts.missingSpares).toBe(0);
    const [first, second] = await disturbed(() => {
      process.kill(executorPid(), 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    expect(gateway.replica.counts.recomputedTokens).toBe(0);
    // The next spare found the weights right, which are damaged before it takes over.
    await expect.poll(() => gateway.replica.counts.spares).toBe(1);
    const [third, fourth] = await disturbed(async () => {
      const pid = executorPid();
      process.kill(pid, 'SIGSTOP');
      flipBit(await keeperMemory(pid, 'weights'), 70_001);
      process.kill(pid, 'SIGKILL');
    });
    expect(seen(fourth)).toEqual(seen(third));
    expect(gateway.replica.counts.restoredWeights).toBe(1);
  });

  it.each([
    ['memory', { executor: { spawn: { device: 'hip' } } }, 2 ** 31, 'a quarter of the memory'],
    ['the keeper', { keepsMemory: false }, 2 ** 33, '--no-keeper'],
  ] as const)('says where --spare cannot be kept for want of %s', async (_what, options, memoryBytes, why) => {
    const lines: string[] = [];
    const before = logLevel() as LogLevel;
    setLogLevel('warn');
    const spy = vi.spyOn(logSink, 'write').mockImplementation((line) => void lines.push(String(line)));
    new HipDouble({ memoryBytes }).install();
    try {
      const { gateway } = await start({ ...options, hasSpare: true });
      const told = lines.map((line) => JSON.parse(line).msg as string).filter((text) => text.includes('--spare'));
      expect(told).toEqual([expect.stringContaining(why)]);
      expect(gateway.replica.counts).toMatchObject({ spares: 0, missingSpares: 1 });
      expect(await gateway.metrics.registry.metrics()).toMatch(/^rocmforge_executor_spares_missing(\{.*\})? 1$/m);
    } finally {
      double.install();
      spy.mockRestore();
      setLogLevel(before);
    }
  });

  it.runIf(isFull)('is not used where it is not wanted', async () => {
    const { gateway } = await start({ keepsMemory: false });
    const [first, second] = await disturbed(() => {
      process.kill(executorPid(), 'SIGKILL');
    });
    expect(seen(second)).toEqual(seen(first));
    expect(gateway.replica.counts.keptTokens).toBe(0);
  });
});
