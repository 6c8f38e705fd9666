import { describe, expect, it } from 'vitest';
import { SeededRandom } from '../../src/cli/bench/random.js';
import type { KvCacheType } from '../../src/executor/kernels/index.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import type { GenerateStreamRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { killEachTime } from '../support/kill-run.js';
import { writeRandomFamily } from '../support/random-model.js';
import { byTier, firstOf } from '../support/run-size.js';

const REQUESTS = byTier({ quick: 16, default: 16, full: 24 });

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

/** f32 of keys and values of a position (of latent attention: of keys), over a family's layers that see everything and over those with a window. */
const FAMILIES = {
  gemma3: [64, 384],
  olmo2: [64, 192],
  gemma2: [256, 256],
  phi3: [0, 768],
  gemma4: [256, 128],
  deepseek2: [320, 0],
} as const;
type Family = keyof typeof FAMILIES;

interface Blocks {
  readonly full: number;
  readonly windowed: number;
}

/** All requests at once. @param kills of the executor, 40 ms after it begins to serve each time */
async function run(
  family: Family,
  kvCacheType: KvCacheType,
  { full, windowed }: Blocks,
  kills: number,
  prefixCache = true,
) {
  const metadata = family === 'phi3' ? { 'phi3.attention.sliding_window': 24 } : {};
  const model = writeRandomFamily(family, { contextLength: 256, metadata });
  const [fullBytes, windowedBytes] = FAMILIES[family].map((floats) =>
    kvBlockBytes([{ kvHeads: 1, headDim: floats / 2 }], kvCacheType),
  ) as [number, number];
  const server = await startTestGateway(model, {
    kvCacheType,
    kvMemoryBytes: full * fullBytes + windowed * windowedBytes,
    maxSequences: 8,
    maxStepTokens: 32,
    prefixCache,
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
    const { scheduler } = server.gateway.replica;
    const { preemptions = 0 } = scheduler?.counters ?? {};
    const pools = [scheduler?.blocks.capacity, scheduler?.windows.capacity];
    const hits = all.filter(({ complete }) => (complete?.usage?.cachedTokens ?? 0) > 0).length;
    return { texts: all.map(({ tokenIds }) => tokenIds), preemptions, hits, pools, ...(await killing) };
  } finally {
    await server.stop();
  }
}

/** The first ones differ most: windows and a quantized cache, layers that share a cache, latent attention, longrope, norms over rows. */
const CASES: readonly (readonly [Family, KvCacheType])[] = [
  ['gemma3', 'q8_0'],
  ['gemma4', 'f32'],
  ['deepseek2', 'f32'],
  ['phi3', 'f32'],
  ['olmo2', 'f32'],
  ['gemma3', 'f32'],
  ['gemma2', 'f32'],
  ['phi3', 'q8_0'],
];
const ROOMY: Blocks = { full: 1000, windowed: 1000 };
/** Two sequences' windows, and less than three sequences at their longest. */
const SHORT: Blocks = { full: 24, windowed: 9 };

describe('windows, norms over rows and RoPE by context change no token', () => {
  it.each(firstOf(5, CASES))(
    '%s with a KV cache in %s, preempted, cached and killed three times',
    async (family, kvCacheType) => {
      const plain = await run(family, kvCacheType, ROOMY, 0, false);
      expect(plain).toMatchObject({ preemptions: 0, hits: 0 });
      const killed = await run(family, kvCacheType, SHORT, 3);
      console.log(
        `${family}, ${kvCacheType}: ${killed.pools} blocks; ${killed.kills} kills, ${killed.inStep} in a step; ` +
          `${killed.preemptions} preempted, ${killed.hits} hits`,
      );
      expect(killed.texts).toEqual(plain.texts);
      expect(killed.kills).toBe(3);
      expect(killed.hits).toBeGreaterThan(0);
      expect(killed.preemptions).toBeGreaterThan(0);
    },
  );
});
