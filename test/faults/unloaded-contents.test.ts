import { execFileSync } from 'node:child_process';
import { afterEach, describe, expect, it } from 'vitest';
import type { GatewayOptions } from '../../src/gateway/options.js';
import { type Generated, generate, request, type TestGateway } from '../support/gateway.js';
import { mixedRequest, seen, startForKills, whenever } from '../support/kill-run.js';
import { Random } from '../support/random.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { byTier } from '../support/run-size.js';
import { flipBit, savedMemory, strayWrites } from '../support/stray-writes.js';

/** Full attention; windows; states; and windows of which several families have another ratio. */
const FAMILIES: readonly RandomFamilyName[] = byTier({
  quick: ['llama', 'gpt-oss', 'qwen35'],
  default: ['llama', 'gpt-oss', 'qwen35'],
  full: ['llama', 'gpt-oss', 'gemma3', 'qwen35'],
});
const STREAMS = 8;
const ROUNDS = byTier({ quick: 2, default: 2, full: 3 });
const TRIES = byTier({ quick: 3, default: 4, full: 12 });
const DELAY_STEP_MS = byTier({ quick: 8, default: 6, full: 3 });
const PROMPT = Array.from({ length: 300 }, (_, i) => 2 + ((i * i + 7 * i) % 200));

let server: TestGateway;
afterEach(() => server.stop());

async function start(
  family: RandomFamilyName,
  more: Partial<GatewayOptions> & { readonly stepDelayMs?: number } = {},
): Promise<void> {
  server = await startForKills(family, { hasSpare: false, kvHostBytes: 1 << 30, ...more });
}

const counts = () => server.gateway.replica.counts;
const unload = async (): Promise<void> => {
  server.gateway.replica.unloadModel();
  await whenever(() => server.gateway.executorState() === 'unloaded');
};
const cached = ({ complete }: Generated) => complete?.usage?.cachedTokens ?? 0;
const greedy = (tokens: number[], maxTokens = 32) =>
  generate(server.client, request({ tokens, sampling: { temperature: 0 }, stop: { maxTokens, ignoreEos: true } }));

/** Makes memory that a gateway in this process holds reject what would let it grow. */
function seal(file: string): void {
  const F_ADD_SEALS = 1033;
  const F_SEAL_GROW = 4;
  const path = file.replace('self', String(process.pid));
  const python = `import fcntl, os; fcntl.fcntl(os.open('${path}', os.O_RDWR), ${F_ADD_SEALS}, ${F_SEAL_GROW})`;
  execFileSync('python3', ['-c', python]);
}

/** A conversation's first turn, and a second that continues it. */
async function turns(between: () => Promise<unknown>): Promise<readonly Generated[]> {
  const first = await greedy(PROMPT);
  await between();
  const second = await greedy([...PROMPT, ...first.tokenIds, 5, 6, 7]);
  return [first, second];
}

describe.each(FAMILIES)('with --kv-host-memory, %s', (family) => {
  it('continues a conversation after it was unloaded, with what it would find if it had not been', async () => {
    await start(family);
    const [, loaded] = await turns(async () => undefined);
    await server.stop();
    await start(family);
    const [, unloaded] = await turns(async () => {
      await unload();
      expect(counts().savedBytes).toBeGreaterThan(0);
      expect(savedMemory().bytes).toBe(counts().savedBytes);
    });
    expect(unloaded?.tokenIds).toEqual(loaded?.tokenIds);
    expect(cached(unloaded as Generated)).toBe(cached(loaded as Generated));
    expect(cached(unloaded as Generated)).toBeGreaterThan(256);
    expect([counts().damagedBlocks, counts().savedBytes, savedMemory().bytes]).toEqual([0, 0, 0]);
    expect(counts().restoredBlocks).toBeGreaterThan(16);
  });

  it('gives every stream the same, unloaded again and again', async () => {
    await start(family);
    const runAll = async () =>
      (await Promise.all(Array.from({ length: STREAMS }, (_, i) => generate(server.client, mixedRequest(i))))).map(
        seen,
      );
    const expected = await runAll();
    for (let round = 0; round < ROUNDS; round++) {
      await unload();
      expect(await runAll()).toEqual(expected);
    }
    expect(counts().damagedBlocks).toBe(0);
  });

  it('computes anew what was damaged meanwhile', async () => {
    await start(family);
    const [, expected] = await turns(async () => undefined);
    const [, after] = await turns(async () => {
      await unload();
      const random = new Random(5);
      strayWrites(savedMemory(), 40, random);
    });
    expect(after?.tokenIds).toEqual(expected?.tokenIds);
    expect(counts().damagedBlocks).toBeGreaterThan(0);
  });
});

describe('the memory of the host', () => {
  it('has no more than it may, of what was used last', async () => {
    await start('llama', { kvHostBytes: 1 << 16 });
    await greedy(PROMPT.toReversed());
    const [, after] = await turns(unload);
    expect(cached(after as Generated)).toBeGreaterThan(0);
    expect(counts().restoredBlocks).toBeGreaterThan(0);
    await unload();
    expect(counts().savedBytes).toBeLessThanOrEqual(1 << 16);
    expect(savedMemory().bytes).toBeLessThanOrEqual(1 << 16);
  });

  it('is not used without a prefix cache, or if it is not given', async () => {
    for (const more of [{ prefixCache: false }, { kvHostBytes: 0 }]) {
      await start('llama', more);
      const [, after] = await turns(unload);
      expect([cached(after as Generated), counts().restoredBlocks, counts().savedBytes]).toEqual([0, 0, 0]);
      await server.stop();
    }
    await start('llama');
  });

  it('serves the next executor when the first one is killed while it copies, either way', async () => {
    await start('llama');
    const [, expected] = await turns(async () => undefined);
    for (let delay = 0; delay < 24; delay += DELAY_STEP_MS) {
      const [, after] = await turns(async () => {
        server.gateway.replica.unloadModel();
        await new Promise((resolve) => setTimeout(resolve, delay));
        const pid = server.gateway.executorPid();
        if (pid !== undefined) process.kill(pid, 'SIGKILL');
        await whenever(() => ['unloaded', 'serving'].includes(server.gateway.executorState()));
      });
      expect(after?.tokenIds, `${delay} ms`).toEqual(expected?.tokenIds);
    }
  });

  it('is given up, until the next request, after an executor was lost while it copied', async () => {
    await start('llama', { stepDelayMs: 200 });
    const first = await greedy(PROMPT, 2);
    server.gateway.replica.unloadModel();
    expect(server.gateway.replica.scheduler?.saving.isUnderWay).toBe(true);
    process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    await whenever(() => server.gateway.executorState() !== 'serving');
    await whenever(() => server.gateway.executorState() === 'serving');
    await unload();
    expect(counts().savedBytes).toBe(0);
    expect((await greedy(PROMPT, 2)).tokenIds).toEqual(first.tokenIds);
    await unload();
    expect(counts().savedBytes).toBeGreaterThan(0);
  });

  it.each([
    ['the executor is killed', () => process.kill(server.gateway.executorPid() as number, 'SIGKILL')],
    ['the executor is replaced', () => server.gateway.replica.replace()],
    ['a request comes', () => undefined],
  ])('is given back when %s while it is copied to', async (_, disturb) => {
    await start('llama');
    await greedy(PROMPT);
    const pid = server.gateway.executorPid() as number;
    process.kill(pid, 'SIGSTOP');
    server.gateway.replica.unloadModel();
    expect(server.gateway.replica.isSaving).toBe(true);
    disturb();
    const answer = greedy([3, 4, 5]);
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (server.gateway.executorPid() === pid) process.kill(pid, 'SIGCONT');
    await answer;
    expect([counts().savedBytes, savedMemory().bytes]).toEqual([0, 0]);
  });

  it('that cannot be written costs no executor, and the model is unloaded without copies', async () => {
    await start('llama', { maxRestarts: 0 });
    const { tokenIds } = await greedy(PROMPT);
    seal(savedMemory().path);
    await unload();
    expect(counts().savedBytes).toBe(0);
    expect((await greedy(PROMPT)).tokenIds).toEqual(tokenIds);
    expect([counts().executors, counts().damagedBlocks, server.gateway.faults]).toEqual([2, 0, []]);
  });

  it('keeps a model loaded that is to be loaded while it is copied to', async () => {
    await start('llama', { stepDelayMs: 50, idleUnloadMs: 600_000 });
    await greedy(PROMPT, 2);
    const [model] = server.gateway.models;
    const unloading = model?.idleUnloader.unload(AbortSignal.timeout(60_000));
    expect(server.gateway.replica.isSaving).toBe(true);
    await model?.router.wake();
    await expect(unloading).rejects.toThrow('the model was loaded before it was unloaded');
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect([server.gateway.executorState(), counts().executors]).toEqual(['serving', 1]);
  });

  it('has all of it though copies were begun before, and steps of these were under way', async () => {
    await start('llama', { stepDelayMs: 50 });
    const [, after] = await turns(async () => {
      server.gateway.replica.unloadModel();
      server.gateway.replica.loadModel();
      expect(server.gateway.replica.isSaving).toBe(false);
      await unload();
      expect(savedMemory().bytes).toBe(counts().savedBytes);
    });
    expect(cached(after as Generated)).toBeGreaterThan(256);
    expect([counts().executors, counts().damagedBlocks]).toEqual([2, 0]);
  });

  it('serves what comes while it is copied to', async () => {
    await start('llama');
    const [, expected] = await turns(async () => undefined);
    for (let i = 0; i < TRIES; i++) {
      const [, after] = await turns(async () => {
        server.gateway.replica.unloadModel();
        await new Promise((resolve) => setTimeout(resolve, i));
      });
      expect(after?.tokenIds, `try ${i}`).toEqual(expected?.tokenIds);
    }
  });

  it('finds each flipped bit', async () => {
    await start('llama');
    const [, expected] = await turns(async () => undefined);
    const random = new Random(11);
    for (let i = 0; i < TRIES; i++) {
      const before = counts().damagedBlocks;
      const [, after] = await turns(async () => {
        await unload();
        const memory = savedMemory();
        flipBit(memory, random.below(memory.bytes), random.below(8));
      });
      expect(after?.tokenIds).toEqual(expected?.tokenIds);
      expect(counts().damagedBlocks).toBe(before + 1);
    }
  });
});
