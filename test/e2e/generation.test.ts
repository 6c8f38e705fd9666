import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { ExecutorSession } from '../../src/gateway/replica/link/executor-session.js';
import { FinishReason, type GenerateStreamResponse } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';

describe('a generation', () => {
  let server: TestGateway;
  beforeAll(async () => {
    server = await startTestGateway(writeRandomModel());
  });
  afterAll(() => server?.stop());
  const run = (parts: Parameters<typeof request>[0]) => generate(server.client, request(parts));

  it('is repeatable: the returned seed gives the same tokens again', async () => {
    const first = await run({ text: 'the fox', stop: { maxTokens: 24, ignoreEos: true } });
    const again = await run({
      text: 'the fox',
      sampling: { seed: first.complete?.seed ?? 0n },
      stop: { maxTokens: 24, ignoreEos: true },
    });
    expect(again.tokenIds).toEqual(first.tokenIds);
  });

  it('differs between seeds', async () => {
    const tokens = await Promise.all(
      [1n, 2n].map(async (seed) => {
        const { tokenIds } = await run({
          text: 'the fox',
          sampling: { seed },
          stop: { maxTokens: 24, ignoreEos: true },
        });
        return tokenIds;
      }),
    );
    expect(tokens[0]).not.toEqual(tokens[1]);
  });

  it('with top_k 1 is the greedy one at any temperature', async () => {
    const stop = { maxTokens: 24, ignoreEos: true };
    const greedy = await run({ text: 'the fox', sampling: { temperature: 0 }, stop });
    const topK = await run({ text: 'the fox', sampling: { temperature: 5, topK: 1, seed: 3n }, stop });
    expect(topK.tokenIds).toEqual(greedy.tokenIds);
  });

  it('ends at max_tokens and counts its tokens', async () => {
    const { complete, tokenIds } = await run({
      text: 'a fox',
      sampling: { temperature: 0 },
      stop: { maxTokens: 7, ignoreEos: true },
    });
    expect(tokenIds).toHaveLength(7);
    expect(complete?.finishReason).toBe(FinishReason.LENGTH);
    expect(complete?.usage?.completionTokens).toBe(7);
  });

  it('ends at a stop token and names it', async () => {
    const free = await run({ text: 'a fox', sampling: { temperature: 0 }, stop: { maxTokens: 12, ignoreEos: true } });
    const stopAt = free.tokenIds[5] as number;
    const { complete, tokenIds } = await run({
      text: 'a fox',
      sampling: { temperature: 0 },
      stop: { maxTokens: 12, ignoreEos: true, tokenIds: [stopAt] },
    });
    expect(tokenIds).toEqual(free.tokenIds.slice(0, free.tokenIds.indexOf(stopAt) + 1));
    expect(complete?.finishReason).toBe(FinishReason.STOP);
    expect(complete?.stopMatch?.match).toEqual({ $case: 'tokenId', value: stopAt });
  });

  it('ends before a stop string, and with it when asked', async () => {
    const sampling = { temperature: 0 };
    const free = await run({ text: 'the', sampling, stop: { maxTokens: 40, ignoreEos: true } });
    const stopString = free.text.slice(10, 14);
    const end = free.text.indexOf(stopString);
    const without = await run({
      text: 'the',
      sampling,
      stop: { maxTokens: 40, ignoreEos: true, strings: [stopString] },
    });
    expect(without.text).toBe(free.text.slice(0, end));
    expect(without.complete?.stopMatch?.match).toEqual({ $case: 'stopString', value: stopString });
    const included = await run({
      text: 'the',
      sampling,
      stop: { maxTokens: 40, ignoreEos: true, strings: [stopString], includeStopString: true },
    });
    expect(included.text).toBe(free.text.slice(0, end + stopString.length));
  });

  it('of n completions gives n, each by its own draw', async () => {
    const texts = new Map<number, string>();
    const call = server.client.generateStream(
      request({ text: 'the', n: 3, sampling: { seed: 1n }, stop: { maxTokens: 16, ignoreEos: true } }),
    );
    let completes = 0;
    for await (const { event } of call) {
      if (event?.$case === 'chunk')
        texts.set(event.value.index, (texts.get(event.value.index) ?? '') + event.value.text);
      if (event?.$case === 'complete') completes += 1;
    }
    expect(completes).toBe(3);
    expect(new Set(texts.values()).size).toBe(3);
  });

  it('is the same alone and among 16 others', async () => {
    const sampling = { temperature: 0.8, seed: 11n };
    const stop = { maxTokens: 40, ignoreEos: true };
    const alone = await run({ text: 'the old fox', sampling, stop });
    const others = Array.from({ length: 15 }, (_, i) =>
      run({
        text: 'wind sang to the sea'.slice(0, 3 + i),
        sampling: { seed: BigInt(i) },
        stop: { maxTokens: 60, ignoreEos: true },
      }),
    );
    const among = await run({ text: 'the old fox', sampling, stop });
    await Promise.all(others);
    expect(among.tokenIds).toEqual(alone.tokenIds);
  });

  it('answers the unary call with the same text', async () => {
    const message = request({ text: 'night', sampling: { temperature: 0 }, stop: { maxTokens: 10, ignoreEos: true } });
    const streamed = await generate(server.client, message);
    const response = await new Promise<{ text: string; usage: number | undefined }>((resolve, reject) =>
      server.client.generate(message, (error, answer) =>
        error
          ? reject(error)
          : resolve({ text: answer.completions[0]?.text ?? '', usage: answer.usage?.completionTokens }),
      ),
    );
    expect(response).toEqual({ text: streamed.text, usage: 10 });
  });

  it('ends when its time limit has passed, with what it has', async () => {
    const timeLimitMs = 3_600_000;
    const slow = await startTestGateway(writeRandomModel(), { stepDelayMs: 30 });
    const timers = vi.spyOn(globalThis, 'setTimeout');
    try {
      const call = slow.client.generateStream(
        request({ text: 'the', timeLimitMs, stop: { maxTokens: 400, ignoreEos: true } }),
      );
      const tokens: number[] = [];
      let finishReason: FinishReason | undefined;
      call.on('data', ({ event }: GenerateStreamResponse) => {
        if (event?.$case === 'chunk') tokens.push(...event.value.tokenIds);
        if (event?.$case === 'complete') finishReason = event.value.finishReason;
      });
      const ended = new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
      await new Promise((resolve) => call.once('data', resolve));
      // The hour is over.
      const limit = timers.mock.calls.find(([, ms]) => ms === timeLimitMs);
      limit?.[0]();
      await ended;
      expect(finishReason).toBe(FinishReason.TIME_LIMIT);
      expect(tokens.length).toBeGreaterThan(0);
      expect(tokens.length).toBeLessThan(400);
    } finally {
      timers.mockRestore();
      await slow.stop();
    }
  });

  it('that nobody listens to any more gives its slot up', async () => {
    const call = server.client.generateStream(request({ text: 'the', stop: { maxTokens: 500, ignoreEos: true } }));
    call.on('error', () => undefined);
    await new Promise((resolve) => call.once('data', resolve));
    call.cancel();
    await expect.poll(() => server.gateway.replica.active).toBe(0);
    await expect.poll(() => server.gateway.replica.scheduler?.stepsInFlight).toBe(0);
    server.gateway.replica.scheduler?.check();
  });

  it('reaches the client token by token: the first chunk comes before half of the tokens are computed', async () => {
    const slow = await startTestGateway(writeRandomModel(), { stepDelayMs: 20 });
    const steps = vi.spyOn(ExecutorSession.prototype, 'submit');
    try {
      const call = slow.client.generateStream(request({ text: 'the', stop: { maxTokens: 20, ignoreEos: true } }));
      const stepsAtChunk: number[] = [];
      call.on('data', ({ event }: GenerateStreamResponse) => {
        if (event?.$case === 'chunk') stepsAtChunk.push(steps.mock.calls.length);
      });
      await new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
      expect(stepsAtChunk[0]).toBeLessThan(10);
      expect(stepsAtChunk.length).toBeGreaterThan(10);
    } finally {
      steps.mockRestore();
      await slow.stop();
    }
  });
});
