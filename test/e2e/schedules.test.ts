import { expect, it } from 'vitest';
import { SeededRandom } from '../../src/cli/bench/random.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import type { GenerateStreamRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier, seed } from '../support/run-size.js';

const REQUESTS = byTier({ quick: 40, default: 40, full: 150 });
const CLIENTS = 24;
/** Bytes of a KV block of the random model: two layers, keys and values, 2 heads of 16 f32. */
const BLOCK_BYTES = 2 * 2 * 2 * 16 * 16 * 4;

/** Mixed requests: greedy and sampled, short and long, with beginnings in common, most of them ended by a stop token. */
function requests(): GenerateStreamRequest[] {
  const random = new SeededRandom(seed(20261121));
  const tokens = (count: number) => Array.from({ length: count }, () => random.integer([3, 298]));
  const beginnings = [tokens(64), tokens(48), tokens(33)];
  return Array.from({ length: REQUESTS }, (_, i) => {
    const beginning = i % 4 === 3 ? [] : (beginnings[i % 3] as number[]);
    return request({
      tokens: [...beginning, ...tokens(random.integer([1, 30]))],
      sampling: i % 5 === 0 ? { temperature: 0 } : { temperature: 1.2, seed: BigInt(i), presencePenalty: 0.3 },
      stop: { maxTokens: random.integer([20, 110]), ignoreEos: true, tokenIds: [5, 105, 205, 270] },
    });
  });
}

interface Run {
  /** Speed of this machine just now, with its other load: it scales what a test does, and judges nothing. */
  readonly msPerToken: number;
  readonly answers: readonly Generated[];
  readonly preemptions: number;
  /** Requests that found a part of their prompt. */
  readonly hits: number;
  readonly discarded: number;
  readonly chunks: number;
}

/** All requests through a gateway and an executor of their own, in order, so many at a time. */
async function run(options: Partial<GatewayOptions>, clients = CLIENTS, heldMs = 0): Promise<Run> {
  const server = await startTestGateway(model, { kvMemoryBytes: 600 * BLOCK_BYTES, ...options });
  // A loop that is held up for longer than steps take joins the tokens that came meanwhile.
  const hold =
    heldMs > 0
      ? setInterval(() => {
          const until = performance.now() + heldMs;
          while (performance.now() < until);
        }, heldMs / 2)
      : undefined;
  const began = performance.now();
  try {
    const left = requests().entries();
    const answers: Generated[] = [];
    const client = async (): Promise<void> => {
      for (const [i, message] of left) answers[i] = await generate(server.client, message);
    };
    await Promise.all(Array.from({ length: clients }, client));
    const counters = server.gateway.replica.scheduler?.counters;
    return {
      answers,
      msPerToken: (performance.now() - began) / answers.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0),
      preemptions: counters?.preemptions ?? 0,
      hits: answers.filter(({ complete }) => (complete?.usage?.cachedTokens ?? 0) > 0).length,
      discarded: counters?.discardedTokens ?? 0,
      chunks: answers.reduce((sum, answer) => sum + answer.chunks, 0),
    };
  } finally {
    clearInterval(hold);
    await server.stop();
  }
}

const model = writeRandomModel({ contextLength: 256 });

it('preempted, chunked, cached, pipelined, coalesced and plain runs give the same tokens', async () => {
  const plain = await run({ pipelineDepth: 1, prefixCache: false, maxSequences: 1 }, 1);
  const tokens = plain.answers.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
  expect([plain.preemptions, plain.hits, plain.discarded]).toEqual([0, 0, 0]);
  expect(plain.answers).toHaveLength(REQUESTS);

  const pipelined = await run({ prefixCache: false });
  // Each token of a stream comes with a step of all of them: a hold of three such steps joins some.
  const heldMs = Math.max(8, 3 * CLIENTS * pipelined.msPerToken);
  const runs = {
    pipelined,
    chunked: await run({ prefixCache: false, pipelineDepth: 1, maxStepTokens: 17 }),
    cached: await run({ pipelineDepth: 1 }),
    preempted: await run({ kvMemoryBytes: 17 * BLOCK_BYTES, prefixCache: false }),
    coalesced: await run({ prefixCache: false }, CLIENTS, heldMs),
    'all at once': await run({ kvMemoryBytes: 17 * BLOCK_BYTES, maxStepTokens: 23 }, CLIENTS, heldMs),
  };
  const totals = { preemptions: 0, hits: 0, discarded: 0 };
  for (const [name, { answers, preemptions, hits, discarded }] of Object.entries(runs)) {
    answers.forEach((answer, i) => {
      expect(answer.tokenIds, `${name}, request ${i}`).toEqual(plain.answers[i]?.tokenIds);
      expect(answer.text, `${name}, request ${i}`).toBe(plain.answers[i]?.text);
      expect(answer.complete?.finishReason).toBe(plain.answers[i]?.complete?.finishReason);
    });
    totals.preemptions += preemptions;
    totals.hits += hits;
    totals.discarded += discarded;
  }
  console.log(`${REQUESTS} requests, ${tokens} tokens, 6 schedules:`, totals);
  // Each run did what it is there for.
  expect(runs.chunked.discarded).toBe(0);
  expect(runs.cached.hits).toBeGreaterThanOrEqual(byTier({ quick: 20, default: 20, full: 100 }));
  expect(runs.preempted.preemptions).toBeGreaterThan(REQUESTS / 8);
  expect(runs.pipelined.discarded).toBeGreaterThan(REQUESTS / 3);
  expect(runs.coalesced.chunks).toBeLessThan(0.9 * tokens);
  expect(totals.preemptions).toBeGreaterThanOrEqual((2 * REQUESTS) / 3);
  expect(totals.hits).toBeGreaterThanOrEqual((2 * REQUESTS) / 3);
  expect(totals.discarded).toBeGreaterThanOrEqual((2 * REQUESTS) / 3);
});
