import { describe, expect, it } from 'vitest';
import { SeededRandom } from '../../src/cli/bench/random.js';
import type { Constraint, GenerateStreamRequest } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { killEachTime, seen, whenever } from '../support/kill-run.js';
import { writeRandomFamily } from '../support/random-model.js';
import { firstOf } from '../support/run-size.js';

const model = writeRandomFamily('qwen35', { layers: 4, contextLength: 1024 });
const options = { maxSequences: 8, maxStepTokens: 64, maxRestarts: 100 };
const random = new SeededRandom(11);
const tokens = (count: number) => Array.from({ length: count }, () => random.integer([3, 298]));

/** Two turns: what the second one says depends on the first one's answer. */
const FIRST = tokens(300);
const QUESTION = tokens(30);
const turn = (ids: number[]) =>
  request({
    tokens: ids,
    sampling: { temperature: 0.9, seed: 5n },
    stop: { maxTokens: 50, ignoreEos: true },
    output: { logprobs: 3, promptLogprobs: undefined, echo: false, includeSpecialTokens: false, promptText: false },
  });
async function converse(server: TestGateway, between: () => Promise<void> = async () => undefined) {
  const first = await generate(server.client, turn(FIRST));
  await between();
  const second = await generate(server.client, turn([...FIRST, ...first.tokenIds, ...QUESTION]));
  return { first, second, cached: second.complete?.usage?.cachedTokens };
}
const kill = async ({ gateway }: TestGateway): Promise<void> => {
  const pid = gateway.executorPid() as number;
  process.kill(pid, 'SIGKILL');
  await whenever(() => gateway.executorState() === 'serving' && gateway.executorPid() !== pid);
};

describe('a conversation with a recurrent model', () => {
  it('goes on behind the last whole block of the answer, with the tokens and log probabilities that it has anyway', async () => {
    const plain = await startTestGateway(model, { ...options, prefixCache: false });
    const server = await startTestGateway(model, options);
    try {
      const expected = await converse(plain);
      expect(expected.cached).toBe(0);
      expect(plain.gateway.replica.counts).toMatchObject({ stateSnapshots: 0, keptStateSnapshots: 0 });
      const found = await converse(server);
      expect(found.cached).toBe(16 * Math.floor((300 + 49) / 16));
      expect(seen(found.first)).toEqual(seen(expected.first));
      expect(seen(found.second)).toEqual(seen(expected.second));
      // Two a sequence; those of the prompts, and of how far each answer came.
      expect(server.gateway.replica.counts).toMatchObject({ stateSnapshots: 16, cachedTokens: found.cached });
      expect(server.gateway.replica.counts.keptStateSnapshots).toBeGreaterThan(2);

      // States and blocks outlive their executor.
      const killed = await converse(server, () => kill(server));
      expect(killed.cached).toBe(found.cached);
      expect(seen(killed.second)).toEqual(seen(expected.second));
      server.gateway.replica.scheduler?.check();
    } finally {
      await Promise.all([plain.stop(), server.stop()]);
    }
  });

  it('computes it anew where no memory outlives a killed executor', async () => {
    const server = await startTestGateway(model, { ...options, keepsMemory: false });
    try {
      const undisturbed = await converse(server);
      const killed = await converse(server, () => kill(server));
      expect([undisturbed.cached, killed.cached]).toEqual([16 * Math.floor((300 + 49) / 16), 0]);
      expect(seen(killed.second)).toEqual(seen(undisturbed.second));
    } finally {
      await server.stop();
    }
  });

  it('computes it anew where no snapshots are kept', async () => {
    const server = await startTestGateway(model, { ...options, stateSnapshots: 0 });
    try {
      expect((await converse(server)).cached).toBe(0);
    } finally {
      await server.stop();
    }
  });

  it('shares the prompt of completions of one request', async () => {
    const server = await startTestGateway(model, options);
    try {
      const { completions } = await generate(server.client, { ...turn(FIRST), n: 3 });
      const alone = await generate(server.client, turn(FIRST));
      expect(completions.map(({ end }) => end?.usage?.cachedTokens)).toEqual([0, 288, 288]);
      expect(completions[0]!.tokenIds).toEqual(alone.tokenIds);
    } finally {
      await server.stop();
    }
  });
});

const REGEX: NonNullable<Constraint['kind']> = { $case: 'regex', value: '(a|b|the| |fox|sea){10,60}' };

/** Greedy, sampled and constrained ones, single and several, that share beginnings of different lengths. */
function mixed(): GenerateStreamRequest[] {
  const draw = new SeededRandom(7);
  const some = (count: number) => Array.from({ length: count }, () => draw.integer([3, 298]));
  const beginning = some(400);
  return Array.from({ length: 40 }, (_, i) =>
    request({
      tokens: [...beginning.slice(0, [400, 250, 130, 60][i % 4]), ...some(draw.integer([1, 40]))],
      n: i % 10 === 3 ? 2 : 1,
      sampling: { temperature: i % 2 === 0 ? 0 : 1.1, seed: BigInt(i) },
      stop: { maxTokens: 60, ignoreEos: i % 5 !== 1 },
      ...(i % 5 === 1 && { constraint: { kind: REGEX } }),
    }),
  );
}

async function run(parts: Parameters<typeof startTestGateway>[1], kills: number) {
  const server = await startTestGateway(model, { ...options, ...parts, stepDelayMs: kills > 0 ? 4 : 0 });
  const requests = mixed();
  let left = requests.length;
  try {
    const answers = requests.map(async (message): Promise<Generated> => {
      const answer = await generate(server.client, message);
      left -= 1;
      return answer;
    });
    const killing = killEachTime(
      server,
      kills,
      () => 60,
      () => left === 0,
    );
    const all = await Promise.all(answers);
    const { preemptions, cachedTokens, maskMisses } = server.gateway.replica.counts;
    server.gateway.replica.scheduler?.check();
    return { seen: all.map(seen), preemptions, cachedTokens, maskMisses, ...(await killing) };
  } finally {
    await server.stop();
  }
}

describe('snapshots of states change no token', () => {
  it.each(firstOf(1, [3, 16]))(
    '%s of them, of sequences that are preempted, constrained and killed three times',
    async (stateSnapshots) => {
      const plain = await run({ prefixCache: false }, 0);
      expect(plain).toMatchObject({ preemptions: 0, cachedTokens: 0 });
      // Room for little more than one sequence at its longest: one layer with attention, of 2 heads of 32 in f32.
      const kvMemoryBytes = 72 * 16 * 2 * 2 * 32 * 4;
      const killed = await run({ stateSnapshots, kvMemoryBytes }, 3);
      console.log(
        `${stateSnapshots} snapshots: ${killed.kills} kills, ${killed.inStep} in a step; ${killed.preemptions} preempted, ` +
          `${killed.cachedTokens} tokens found, ${killed.maskMisses} late masks`,
      );
      expect(killed.seen).toEqual(plain.seen);
      expect(killed.kills).toBe(3);
      expect(killed.preemptions).toBeGreaterThan(0);
      expect(killed.cachedTokens).toBeGreaterThan(1000);
    },
  );
});
