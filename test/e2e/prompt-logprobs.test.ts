import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  FinishReason,
  type GenerateResponse,
  type TokenLogprobs,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { sharedPath } from '../support/shared-data.js';

const output = {
  logprobs: undefined,
  promptLogprobs: undefined,
  echo: false,
  includeSpecialTokens: false,
  promptText: false,
};
const prompt = Array.from({ length: 45 }, (_, i) => 3 + ((i * 104_729 + i * i) % 290));

const asking = (tokens: number[], top: number, parts: Parameters<typeof request>[0] = {}) =>
  request({
    tokens,
    sampling: { temperature: 0 },
    stop: { maxTokens: 8, ignoreEos: true },
    output: { ...output, promptLogprobs: top },
    ...parts,
  });

function unary(server: TestGateway, message: Parameters<typeof generate>[1]): Promise<GenerateResponse> {
  return new Promise((resolve, reject) =>
    server.client.generate(message, (error, response) => (error ? reject(error) : resolve(response))),
  );
}

describe('log probabilities of the prompt', () => {
  const model = writeRandomModel();
  let server: TestGateway;
  let expected: readonly TokenLogprobs[];
  beforeAll(async () => {
    server = await startTestGateway(model);
    // One plain request a position: a bias makes the prompt's next token certain, and logprobs are of the raw logits.
    const steps = await Promise.all(
      prompt.slice(1).map((next, i) =>
        generate(
          server.client,
          request({
            tokens: prompt.slice(0, i + 1),
            sampling: { temperature: 0, logitBias: { [next]: 1000 } },
            stop: { maxTokens: 1, ignoreEos: true },
            output: { ...output, logprobs: 5 },
          }),
        ),
      ),
    );
    expected = [
      { tokenId: prompt[0] as number, logprob: undefined, top: [], given: [] },
      ...steps.map(({ logprobs }) => logprobs[0] as TokenLogprobs),
    ];
  });
  afterAll(() => server?.stop());

  it('are, bit for bit, those of a request that ends at each position', async () => {
    const { promptLogprobs, chunks, tokenIds } = await generate(server.client, asking(prompt, 5));
    expect(expected.map(({ tokenId }) => tokenId)).toEqual(prompt);
    expect(promptLogprobs).toEqual(expected);
    expect(tokenIds).toHaveLength(8);
    expect(chunks).toBeGreaterThan(1);
  });

  it('come with the likeliest tokens that were asked for', async () => {
    const { promptLogprobs } = await generate(server.client, asking(prompt, 2));
    expect(promptLogprobs).toEqual(expected.map((entry) => ({ ...entry, top: entry.top.slice(0, 2) })));
    const none = await generate(server.client, asking(prompt, 0));
    expect(none.promptLogprobs).toEqual(expected.map((entry) => ({ ...entry, top: [] })));
  });

  it('change nothing about what is generated, greedy or sampled, with penalties or without', async () => {
    for (const sampling of [{ temperature: 0 }, { seed: 4n, repetitionPenalty: 1.4, presencePenalty: 1 }]) {
      const stop = { maxTokens: 30, ignoreEos: true };
      const plain = await generate(server.client, request({ tokens: prompt, sampling, stop }));
      const asked = await generate(server.client, asking(prompt, 3, { sampling, stop }));
      expect(asked.tokenIds).toEqual(plain.tokenIds);
    }
  });

  it.each([1, 3])('are the same with %i rows of logits a step, and beside others', async (maxSequences) => {
    const narrow = await startTestGateway(model, { maxSequences });
    try {
      const others = [1, 2, 3, 4].map((i) =>
        generate(narrow.client, request({ tokens: prompt.slice(i), stop: { maxTokens: 40, ignoreEos: true } })),
      );
      const asked = [5, 6].map(() => generate(narrow.client, asking(prompt, 5)));
      for (const { promptLogprobs } of await Promise.all(asked)) expect(promptLogprobs).toEqual(expected);
      await Promise.all(others);
    } finally {
      await narrow.stop();
    }
  });

  it('do not come from the prefix cache', async () => {
    const plain = request({ tokens: prompt, sampling: { temperature: 0 }, stop: { maxTokens: 2, ignoreEos: true } });
    await generate(server.client, plain);
    expect((await generate(server.client, plain)).complete?.usage?.cachedTokens).toBe(32);
    const asked = await generate(server.client, asking(prompt, 5));
    expect(asked.complete?.usage?.cachedTokens).toBe(0);
    expect(asked.promptLogprobs).toEqual(expected);
    const echoed = await generate(server.client, { ...plain, output: { ...output, echo: true } });
    expect(echoed.complete?.usage?.cachedTokens).toBe(0);
  });

  it('come once for all completions, in the unary answer too', async () => {
    const streamed = await generate(server.client, asking(prompt, 5, { n: 3, sampling: { seed: 1n } }));
    expect(streamed.promptLogprobs).toEqual(expected);
    const answer = await unary(server, asking(prompt, 5, { n: 2 }));
    expect(answer.promptLogprobs).toEqual(expected);
    expect(answer.completions).toHaveLength(2);
  });

  it('of a prompt of one token are one entry without a probability', async () => {
    const { promptLogprobs, tokenIds } = await generate(server.client, asking([7], 5));
    expect(promptLogprobs).toEqual([{ tokenId: 7, logprob: undefined, top: [], given: [] }]);
    expect(tokenIds).toHaveLength(8);
  });

  it('are all of the response where no token is to be generated, also of a prompt that fills the context', async () => {
    for (const n of [1, 2]) {
      const { promptLogprobs, tokenIds, text, complete } = await generate(
        server.client,
        asking(prompt, 5, { n, stop: { maxTokens: 0 }, output: { ...output, promptLogprobs: 5, logprobs: 5 } }),
      );
      expect(promptLogprobs).toEqual(expected);
      expect([tokenIds, text, complete?.usage?.completionTokens]).toEqual([[], '', 0]);
      expect(complete?.finishReason).toBe(FinishReason.LENGTH);
    }
    const whole = await unary(server, asking(prompt, 5, { stop: { maxTokens: 0 } }));
    expect(whole.promptLogprobs).toEqual(expected);
    expect(whole.completions).toMatchObject([{ tokenIds: [], text: '', logprobs: [] }]);
    const small = await startTestGateway(model, { maxContext: prompt.length });
    try {
      const { promptLogprobs } = await generate(small.client, asking(prompt, 5, { stop: { maxTokens: 0 } }));
      expect(promptLogprobs).toEqual(expected);
      await expect(generate(small.client, asking(prompt, 5, { stop: { maxTokens: 1 } }))).rejects.toThrow(
        'at least one',
      );
      await expect(generate(small.client, asking([...prompt, 7], 5, { stop: { maxTokens: 0 } }))).rejects.toThrow('46');
    } finally {
      await small.stop();
    }
  });

  it('are the same after the executor died in the middle of the prompt', async () => {
    const slow = await startTestGateway(model, { maxSequences: 1, stepDelayMs: 10 });
    try {
      const running = generate(slow.client, asking(prompt, 5));
      await new Promise((resolve) => setTimeout(resolve, 200));
      process.kill(slow.gateway.executorPid() as number, 'SIGKILL');
      expect((await running).promptLogprobs).toEqual(expected);
      expect(slow.gateway.executorEpoch()).toBe(2);
    } finally {
      await slow.stop();
    }
  });
});

interface ParityCase {
  readonly prompt: string;
  readonly prompt_tokens: number[];
  readonly tokens: number[];
  readonly top: [id: number, logprob: number][][];
}

const trained = sharedPath('data/models/stories260K-f32.gguf');
const parity = sharedPath('data/parity/stories260K-f32.json');
const cases: ParityCase[] = parity ? JSON.parse(readFileSync(parity, 'utf8')).cases : [];

describe.skipIf(!trained || !parity)('log probabilities of a trained model’s prompt, against llama.cpp', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(trained as string);
  });
  afterAll(() => server?.stop());

  it.each(cases)('"$prompt" and what llama.cpp wrote after it, as one prompt', async (expected) => {
    const { promptLogprobs } = await generate(
      server.client,
      asking([...expected.prompt_tokens, ...expected.tokens], 5),
    );
    const written = promptLogprobs.slice(expected.prompt_tokens.length);
    expect(written.map(({ tokenId }) => tokenId)).toEqual(expected.tokens);
    expected.top.forEach((top, i) => {
      expect(written[i]?.top.map(({ tokenId }) => tokenId)).toEqual(top.map(([id]) => id));
      top.forEach(([, logprob], k) => {
        expect(Math.abs((written[i]?.top[k]?.logprob ?? Number.NaN) - logprob)).toBeLessThanOrEqual(1e-4);
      });
      expect(written[i]?.logprob).toBe(written[i]?.top[0]?.logprob);
    });
  });
});
