import { describe, expect, it } from 'vitest';
import { SeededRandom } from '../../src/cli/bench/random.js';
import type { KvCacheType } from '../../src/executor/kernels/index.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import type { GenerateStreamRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { killEachTime } from '../support/kill-run.js';
import type { RandomFamilyName } from '../support/random-families.js';
import { writeRandomFamily } from '../support/random-model.js';

const REQUESTS = 24;

/** Greedy and sampled, with a beginning in common that is longer than every window. */
function requests(): GenerateStreamRequest[] {
  const random = new SeededRandom(7);
  const tokens = (count: number) => Array.from({ length: count }, () => random.integer([3, 298]));
  const beginning = tokens(64);
  return Array.from({ length: REQUESTS }, (_, i) =>
    request({
      tokens: [...beginning, ...tokens(random.integer([1, 20]))],
      sampling: i % 2 === 0 ? { temperature: 0 } : { temperature: 1.1, seed: BigInt(i) },
      stop: { maxTokens: 60, ignoreEos: true },
    }),
  );
}

/** All requests at once. @param kills of the executor, 40 ms after it begins to serve each time */
async function run(family: RandomFamilyName, kvCacheType: KvCacheType, blocks: number, kills: number) {
  const model = writeRandomFamily(family, { contextLength: 256 });
  const layers = family === 'gemma3' ? 7 : 4;
  const [kvHeads, headDim] = { gemma3: [1, 32], olmo2: [2, 16], phi3: [1, 96] }[family as 'gemma3' | 'olmo2' | 'phi3'];
  const server = await startTestGateway(model, {
    kvCacheType,
    kvMemoryBytes: blocks * kvBlockBytes({ layers, kvHeads: kvHeads!, headDim: headDim! }, kvCacheType),
    maxSequences: 8,
    maxRestarts: 100,
    stepDelayMs: kills > 0 ? 4 : 0,
  });
  let left = REQUESTS;
  try {
    const answers = requests().map(async (message): Promise<Generated> => {
      const answer = await generate(server.client, message);
      left -= 1;
      return answer;
    });
    const killing = killEachTime(
      server,
      kills,
      () => 40,
      () => left === 0,
    );
    const all = await Promise.all(answers);
    const { preemptions = 0 } = server.gateway.replica.scheduler?.counters ?? {};
    const hits = all.filter(({ complete }) => (complete?.usage?.cachedTokens ?? 0) > 0).length;
    return { texts: all.map(({ tokenIds }) => tokenIds), preemptions, hits, ...(await killing) };
  } finally {
    await server.stop();
  }
}

describe('windows, norms over rows and RoPE by context change no token', () => {
  it.each([
    ['gemma3', 'f32'],
    ['olmo2', 'f32'],
    ['phi3', 'f32'],
    ['gemma3', 'q8_0'],
    ['phi3', 'q8_0'],
  ] as const)('%s with a KV cache in %s, preempted, cached and killed three times', async (family, kvCacheType) => {
    const plain = await run(family, kvCacheType, 1000, 0);
    const killed = await run(family, kvCacheType, 30, 3);
    console.log(
      `${family}, ${kvCacheType}: ${killed.kills} kills, ${killed.inStep} in a step; ${killed.preemptions} preempted, ${killed.hits} hits`,
    );
    expect(killed.texts).toEqual(plain.texts);
    expect(killed.kills).toBe(3);
    expect(killed.hits).toBeGreaterThan(0);
    expect(killed.preemptions).toBeGreaterThan(0);
  });
});
