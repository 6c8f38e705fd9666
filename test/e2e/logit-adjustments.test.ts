import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FinishReason, type OutputOptions } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

const STEPS = 40;
const EOS = 2;
const output: OutputOptions = {
  logprobs: 20,
  promptLogprobs: undefined,
  echo: false,
  includeSpecialTokens: false,
  promptText: false,
};

interface Penalties {
  readonly repetitionPenalty?: number;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
}

describe('logits are adjusted on the device as the plain formula says', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel(), { maxSequences: 8 });
  });
  afterAll(() => server?.stop());
  const run = (parts: Parameters<typeof request>[0]): Promise<Generated> =>
    generate(server.client, request({ output, ...parts, stop: { maxTokens: STEPS, ignoreEos: true, ...parts.stop } }));

  /**
   * The token that the formula chooses, if the likeliest 20 raw log probabilities settle it: log probabilities are
   * logits less one number, so a penalty that only subtracts acts on them alike.
   */
  function expectedToken(
    step: Generated['logprobs'][number],
    history: ReadonlyMap<number, number>,
    p: Penalties,
  ): number | undefined {
    const adjusted = step.top.map(({ tokenId, logprob }) => {
      const times = history.get(tokenId) ?? 0;
      return {
        tokenId,
        value: logprob - (times > 0 ? times * (p.frequencyPenalty ?? 0) + (p.presencePenalty ?? 0) : 0),
      };
    });
    const best = adjusted.reduce((a, b) => (b.value > a.value ? b : a));
    const floor = step.top.at(-1)?.logprob ?? 0;
    return best.value > floor + 1e-4 ? best.tokenId : undefined;
  }

  it.each([
    ['presence', { presencePenalty: 1.5 }],
    ['frequency', { frequencyPenalty: 0.7 }],
    ['both', { presencePenalty: 0.5, frequencyPenalty: 0.5 }],
  ] as const)('%s penalty, greedy, step by step', async (_name, penalties) => {
    const answer = await run({ text: 'the fox', sampling: { temperature: 0, ...penalties } });
    const history = new Map<number, number>();
    let settled = 0;
    answer.logprobs.forEach((step, i) => {
      const expected = expectedToken(step, history, penalties);
      if (expected !== undefined) {
        expect(answer.tokenIds[i], `token ${i}`).toBe(expected);
        settled += 1;
      }
      const token = answer.tokenIds[i] as number;
      history.set(token, (history.get(token) ?? 0) + 1);
    });
    expect(settled).toBeGreaterThan(STEPS / 2);
  });

  it('a strong repetition penalty never repeats a token of prompt or completion', async () => {
    const prompt = [1, 260, 270, 280];
    const { tokenIds } = await run({ tokens: prompt, sampling: { temperature: 0, repetitionPenalty: 1e6 } });
    const free = await run({ tokens: prompt, sampling: { temperature: 0 } });
    expect(new Set(free.tokenIds).size).toBeLessThan(STEPS);
    expect(new Set([...prompt, ...tokenIds]).size).toBe(prompt.length + STEPS);
  });

  it('a bias makes a token certain or impossible, and log probabilities stay those of the raw logits', async () => {
    const free = await run({ text: 'sea', sampling: { temperature: 0 } });
    const first = free.tokenIds[0] as number;
    const forced = await run({ text: 'sea', sampling: { temperature: 0, logitBias: { 277: 100 } } });
    expect(new Set(forced.tokenIds)).toEqual(new Set([277]));
    expect(forced.logprobs[0]?.top[0]?.tokenId).toBe(first);
    const banned = await run({ text: 'sea', sampling: { temperature: 0, logitBias: { [first]: -100 } } });
    expect(banned.tokenIds).not.toContain(first);
  });

  it('min_tokens holds the end back until then and not longer', async () => {
    const sampling = { temperature: 0, logitBias: { [EOS]: 100 } };
    const at = async (minTokens: number) =>
      await run({ text: 'sea', sampling, stop: { ignoreEos: false, minTokens, maxTokens: STEPS } });
    expect((await at(0)).tokenIds).toEqual([EOS]);
    const held = await at(7);
    expect(held.tokenIds).toHaveLength(8);
    expect(held.tokenIds.indexOf(EOS)).toBe(7);
    expect(held.complete?.finishReason).toBe(FinishReason.STOP);
  });

  it('echo puts the prompt in front', async () => {
    const plain = await run({ text: 'the old fox', sampling: { temperature: 0 } });
    const echoed = await run({ text: 'the old fox', sampling: { temperature: 0 }, output: { ...output, echo: true } });
    expect(echoed.text).toBe(`the old fox${plain.text}`);
  });

  it('a crash in between changes nothing', async () => {
    const slow = await startTestGateway(writeRandomModel(), { stepDelayMs: 5 });
    try {
      const message = request({
        text: 'the fox',
        sampling: { temperature: 0.9, seed: 5n, presencePenalty: 1, repetitionPenalty: 1.3, logitBias: { 270: 2 } },
        stop: { maxTokens: STEPS, minTokens: 30 },
      });
      const undisturbed = await generate(slow.client, message);
      const running = generate(slow.client, message);
      await new Promise((resolve) => setTimeout(resolve, 90));
      process.kill(slow.gateway.executorPid() as number, 'SIGKILL');
      expect((await running).tokenIds).toEqual(undisturbed.tokenIds);
    } finally {
      await slow.stop();
    }
  });
});
