import type { ServiceError } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import type { ExecuteResponse, LoadedModel } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { FAKE_VOCABULARY, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

const message = (parts: Parameters<typeof request>[0] = {}) =>
  request({ text: 'the fox', stop: { maxTokens: 40, ignoreEos: true }, ...parts });
const withPrompt = message({
  text: 'the old fox ran to the sea',
  output: { logprobs: undefined, promptLogprobs: 0, echo: false, includeSpecialTokens: false, promptText: false },
});
const named = message({
  output: {
    ...{ logprobs: undefined, promptLogprobs: undefined, logprobTokens: { ids: [7, 3] } },
    ...{ echo: false, includeSpecialTokens: false, promptText: false },
  },
});
const reasonOf = (running: Promise<unknown>) =>
  running.then(
    () => 'none',
    (error: ServiceError) => errorInfo(error)?.reason,
  );

type Mistake = (response: ExecuteResponse) => Partial<ExecuteResponse>;
const output =
  (change: Partial<ExecuteResponse['outputs'][number]>): Mistake =>
  ({ outputs }) => ({
    outputs: outputs.map((one) => ({ ...one, ...change })),
  });
const promptOutput =
  (change: Partial<ExecuteResponse['outputs'][number]>): Mistake =>
  ({ promptOutputs }) => ({
    promptOutputs: promptOutputs.map((one) => ({ ...one, ...change })),
  });

const MISTAKES: Readonly<Record<string, Mistake>> = {
  'the step before': ({ stepId }) => ({ stepId: stepId - 1n }),
  'the step after': ({ stepId }) => ({ stepId: stepId + 1n }),
  'a step of 2^64 - 1': () => ({ stepId: (1n << 64n) - 1n }),
  'no token': () => ({ outputs: [] }),
  'a token too many': ({ outputs }) => ({ outputs: [...outputs, ...outputs] }),
  'the token of another slot': output({ slot: 3 }),
  'a token beyond the vocabulary': output({ tokenId: FAKE_VOCABULARY.size }),
  'a token of 2^32 - 1': output({ tokenId: 2 ** 32 - 1 }),
  'likeliest tokens that nobody asked for': output({ topIds: [300], topLogprobs: [-1] }),
  'likeliest tokens without their log probabilities': output({ topIds: [260] }),
  'a named token’s log probability that nobody asked for': output({ chosenLogprobs: [-1], chosenRanks: [1] }),
  'predicted tokens that were not requested': output({ predictedIds: [260] }),
  'prompt tokens that nobody asked for': ({ outputs }) => ({ promptOutputs: outputs }),
};
const NAMED_MISTAKES: Readonly<Record<string, Mistake>> = {
  'one named token of two': output({ chosenLogprobs: [-1], chosenRanks: [1] }),
  'a named token’s rank of 0': output({ chosenRanks: [1, 0] }),
  'a named token’s rank beyond the vocabulary': output({ chosenRanks: [1, FAKE_VOCABULARY.size + 1] }),
  'a named token’s log probability above 0': output({ chosenLogprobs: [-1, 2] }),
};
const PROMPT_MISTAKES: Readonly<Record<string, Mistake>> = {
  'a prompt token too few': ({ promptOutputs }) => ({ promptOutputs: promptOutputs.slice(1) }),
  'another prompt': promptOutput({ tokenId: 260 }),
  'the prompt of another slot': promptOutput({ slot: 5 }),
  'a log probability that is not a number': promptOutput({ logprob: Number.NaN }),
  'a log probability above 0': promptOutput({ logprob: 2 }),
};

describe('an executor whose answer is wrong', () => {
  const cases = [
    ...Object.entries(MISTAKES).map(([name, mistake]) => [name, mistake, message(), 10] as const),
    ...Object.entries(NAMED_MISTAKES).map(([name, mistake]) => [name, mistake, named, 10] as const),
    ...Object.entries(PROMPT_MISTAKES).map(([name, mistake]) => [name, mistake, withPrompt, 1] as const),
  ];
  it.each(cases)('by %s is given up, and the stream goes on with the next', async (_name, mistake, asked, when) => {
    const server = await startFakeGateway({ maxRestarts: 5 });
    try {
      const expected = await generate(server.client, asked);
      let answers = 0;
      server.executor.rewrite = (response) => {
        answers += 1;
        return [answers === when ? { ...response, ...mistake(response) } : response];
      };
      const { tokenIds, promptLogprobs } = await generate(server.client, asked);
      expect(tokenIds).toEqual(expected.tokenIds);
      expect(promptLogprobs).toEqual(expected.promptLogprobs);
      expect(server.gateway.executorEpoch()).toBe(2);
      expect(await server.gateway.metrics.registry.metrics()).toContain(
        'rocmforge_executor_restarts_total{reason="answer"} 1',
      );
    } finally {
      await server.stop();
    }
  });

  it('with a token that has no text ends that request alone', async () => {
    // The model's output has rows for which the tokenizer has no token.
    const server = await startFakeGateway({ vocabulary: { first: 259, size: 320 }, maxSequences: 4 });
    try {
      let poisoned = -1;
      server.executor.rewrite = (response) => [
        {
          ...response,
          outputs: response.outputs.map((one) => {
            if (poisoned < 0) poisoned = one.slot;
            return { ...one, tokenId: one.slot === poisoned ? 310 : 260 };
          }),
        },
      ];
      const running = ['a', 'b', 'c'].map((text) => reasonOf(generate(server.client, message({ text }))));
      expect((await Promise.all(running)).sort()).toEqual(['TOKEN_OUT_OF_RANGE', 'none', 'none']);
      expect(server.gateway.executorEpoch()).toBe(1);
    } finally {
      await server.stop();
    }
  });
});

describe('an executor that is not what was asked for', () => {
  const CLAIMS: Readonly<Record<string, Partial<LoadedModel>>> = {
    epoch: { epoch: 7n },
    fingerprint: { fingerprint: 'another' },
    vocabulary: { vocabularySize: 10 },
    context: { maxContext: 1 << 20 },
    slots: { maxSequences: 1 << 20 },
    'no slots': { maxSequences: 0 },
    'rows a step': { maxStepTokens: 1 },
    'tokens a KV block': { kvBlockTokens: 32 },
    'KV blocks': { kvBlocks: 0 },
    'more KV blocks': { kvBlocks: 1_000_000 },
    'more rows a step': { maxStepTokens: 1_000_000 },
    window: { window: 1 << 20, windowBlocks: 100 },
    'windowed KV blocks': { windowBlocks: 1 },
    'more windowed KV blocks': { window: 16, windowBlocks: 1_000_000 },
    'room for a window': { window: 16, windowBlocks: 2 },
    'snapshots of states': { stateSnapshots: 1 },
    'more snapshots of states': { recurrent: true, stateSnapshots: 1_000_000 },
    'more draft tokens': { recurrent: true, draftTokens: 8 },
    'prediction block': { predicts: true },
  };
  it.each(Object.entries(CLAIMS))('but has another %s is refused', async (_name, claims) => {
    await expect(startFakeGateway({ claims })).rejects.toMatchObject({ reason: 'EXECUTOR_PROTOCOL' });
  });

  it('but chooses more slots than it may is refused', async () => {
    const refused = startFakeGateway({ claims: { maxSequences: 257, maxStepTokens: 512 }, maxSequences: 0 });
    await expect(refused).rejects.toMatchObject({
      reason: 'EXECUTOR_PROTOCOL',
      message: expect.stringContaining('other slots than asked: 257'),
    });
  });

  it('but of another release is refused, with both versions', async () => {
    const refused = startFakeGateway({ info: { version: '0.0.9', platform: 'fake', target: 'fake' } });
    await expect(refused).rejects.toMatchObject({
      reason: 'EXECUTOR_PROTOCOL',
      message: expect.stringMatching(/0\.0\.9.*\d+\.\d+\.\d+/),
    });
  });
});

describe('an executor that comes back with less', () => {
  /** Runs streams, and the executor's claims change when it is lost in the middle. */
  async function comeBackWith(claims: Partial<LoadedModel>, maxTokens: number, kvBlocks = 65) {
    const server = await startFakeGateway({ kvBlocks, maxSequences: 4, maxRestarts: 3, checkEveryStep: true });
    try {
      const run = (i: number) =>
        generate(server.client, message({ text: `the fox ${'abc'[i]}`, stop: { maxTokens, ignoreEos: true } }));
      const expected = await Promise.all([0, 1, 2].map(run));
      let answers = 0;
      server.executor.rewrite = (response) => {
        answers += 1;
        if (answers === 20) server.executor.claims = claims;
        return [answers === 20 ? { ...response, outputs: [] } : response];
      };
      const answered = await Promise.all([0, 1, 2].map((i) => run(i).catch((error: ServiceError) => error)));
      const limits = server.gateway.replica.scheduler?.blocks.count;
      expect(server.executor.failure).toBeUndefined();
      return { expected, answered, limits };
    } finally {
      await server.stop();
    }
  }

  it('KV blocks gets none that it does not have, and every stream goes on', async () => {
    const { expected, answered, limits } = await comeBackWith({ kvBlocks: 17 }, 100);
    expect(limits).toBe(17);
    expect(answered.map((one) => ('tokenIds' in one ? one.tokenIds : one))).toEqual(
      expected.map((one) => one.tokenIds),
    );
  });

  it('rows a step gets no more than those', async () => {
    const { expected, answered } = await comeBackWith({ maxStepTokens: 16 }, 60);
    expect(answered.map((one) => ('tokenIds' in one ? one.tokenIds : one))).toEqual(
      expected.map((one) => one.tokenIds),
    );
  });

  it('KV blocks than a stream may need ends that stream with the reason', async () => {
    const { answered } = await comeBackWith({ kvBlocks: 4 }, 300);
    const reasons = answered.map((one) => ('code' in one ? errorInfo(one)?.reason : 'none'));
    expect(reasons).toEqual(['OUT_OF_MEMORY', 'OUT_OF_MEMORY', 'OUT_OF_MEMORY']);
  });

  it('on another device is not given streams that the first one began', async () => {
    const server = await startFakeGateway({ maxRestarts: 1 });
    try {
      let answers = 0;
      server.executor.rewrite = (response) => {
        answers += 1;
        if (answers === 10) server.executor.info = { ...server.executor.info, target: 'gfx1100' };
        return [answers === 10 ? { ...response, outputs: [] } : response];
      };
      expect(await reasonOf(generate(server.client, message()))).toBe('EXECUTOR_UNAVAILABLE');
      expect(server.gateway.executorState()).toBe('failed');
    } finally {
      await server.stop();
    }
  });
});
