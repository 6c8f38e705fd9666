import { pino } from 'pino';
import { expect, it } from 'vitest';
import type { Generation } from '../../../src/gateway/request/generation.js';
import { type Backend, RequestRunner } from '../../../src/gateway/request/runner.js';
import type { Sequence } from '../../../src/gateway/request/sequence.js';
import { Limiter } from '../../../src/gateway/trust/limiter.js';
import type { Limits } from '../../../src/gateway/trust/limits.js';
import { RocmForgeError } from '../../../src/shared/errors.js';
import { smallBpe, tokenizerOf } from '../../lib/tokenizer/vocabularies.js';
import { greedyParameters } from '../../support/greedy-parameters.js';

const TOKENIZER = tokenizerOf(smallBpe());
const CONTEXT = {
  ...{ id: 'r1', arrivedAt: 0, principal: 'token:alice', peer: '10.0.0.1', trace: undefined },
  deadline: Number.POSITIVE_INFINITY,
};
const PROMPT = Uint32Array.of(104, 105);
const TOKENS_PER_MINUTE = 100;

/** A request under way whose constraint is translated until the test settles that. */
function start() {
  const lines: Record<string, unknown>[] = [];
  const told: string[] = [];
  const outcomes: string[] = [];
  const counted = { promptTokens: 0 };
  let submitted: Generation | undefined;
  const backend: Backend = {
    submit: (generation) => {
      submitted = generation;
    },
    hasRoomForMore: () => true,
    cancel: (generation) => generation.abandon(),
    pause: () => undefined,
    expire: () => undefined,
  };
  const observer = {
    requestStarted: (tokens: number) => {
      counted.promptTokens += tokens;
    },
    firstToken: () => undefined,
    tokens: () => undefined,
    completionEnded: () => undefined,
    requestEnded: (outcome: string) => void outcomes.push(outcome),
  };
  const limits = { of: () => ({ tokens_per_minute: TOKENS_PER_MINUTE }) } as unknown as Limits;
  const limiter = new Limiter(
    () => limits,
    { rateLimited: () => undefined },
    () => 0,
  );
  let settle = (_error?: Error): void => undefined;
  const opened = new Promise<void>((resolve, reject) => {
    settle = (error) => (error === undefined ? resolve() : reject(error));
  });
  const leaving = new AbortController();
  const audit = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  new RequestRunner('model', TOKENIZER, backend, observer, limiter, audit).run(
    { ...greedyParameters(PROMPT, 2), opened },
    {
      chunk: (_index, _ids, text) => told.push(text),
      progress: () => undefined,
      prompt: () => undefined,
      complete: (_index, { reason }) => told.push(reason),
      error: ({ reason }) => told.push(reason),
    },
    leaving.signal,
    CONTEXT,
  );
  const generation = submitted as unknown as Generation;
  /** True if the client may begin a request of so many tokens. */
  const hasTokens = (tokens: number) => {
    try {
      limiter.begin(CONTEXT.principal, tokens, 0).end();
      return true;
    } catch (error) {
      expect((error as RocmForgeError).reason).toBe('RATE_LIMITED');
      return false;
    }
  };
  return { lines, told, outcomes, counted, generation, settle, opened, leaving, hasTokens };
}

it('the prompt of a request is counted once its constraint is allowed', async () => {
  const { counted, opened, settle } = start();
  await Promise.resolve();
  expect(counted.promptTokens).toBe(0);
  settle();
  await opened;
  expect(counted.promptTokens).toBe(PROMPT.length);
});

it('a request whose constraint is refused ends with its reason, in one line, and costs its client nothing before it has a slot', async () => {
  const { lines, told, outcomes, counted, generation, settle, opened, hasTokens } = start();
  const error = new RocmForgeError('CONSTRAINT_UNSUPPORTED', 'no mask');
  settle(error);
  generation.fail(error);
  await expect(opened).rejects.toBe(error);
  expect([told, outcomes, counted.promptTokens]).toEqual([[error.reason], [error.reason], 0]);
  expect(lines).toMatchObject([{ outcome: error.reason, promptTokens: PROMPT.length, completionTokens: 0 }]);
  expect(hasTokens(TOKENS_PER_MINUTE)).toBe(true);
});

it('a request whose client leaves while its constraint is translated is cancelled, in one line, and costs it nothing before it has a slot', async () => {
  const { lines, told, outcomes, counted, settle, opened, leaving, hasTokens } = start();
  leaving.abort();
  settle();
  await opened;
  expect([told, outcomes, counted.promptTokens]).toEqual([[], ['cancelled'], 0]);
  expect(lines).toMatchObject([{ outcome: 'cancelled', promptTokens: PROMPT.length, completionTokens: 0 }]);
  expect(hasTokens(TOKENS_PER_MINUTE)).toBe(true);
});

it('a prompt that has had a slot costs its client tokens, whether its constraint is refused or its client leaves', async () => {
  const refused = start();
  refused.generation.placed(refused.generation.sequences[0] as Sequence);
  const error = new RocmForgeError('CONSTRAINT_UNSUPPORTED', 'no mask');
  refused.settle(error);
  refused.generation.fail(error);
  await expect(refused.opened).rejects.toBe(error);
  expect(refused.hasTokens(TOKENS_PER_MINUTE)).toBe(false);

  const left = start();
  left.generation.placed(left.generation.sequences[0] as Sequence);
  left.leaving.abort();
  expect([left.outcomes, left.hasTokens(TOKENS_PER_MINUTE)]).toEqual([['cancelled'], false]);
});

it('a prompt that has a slot before its constraint is allowed costs its tokens once', async () => {
  const { generation, settle, opened, leaving, hasTokens } = start();
  generation.placed(generation.sequences[0] as Sequence);
  settle();
  await opened;
  leaving.abort();
  const left = TOKENS_PER_MINUTE - PROMPT.length;
  expect([hasTokens(left), hasTokens(left + 1)]).toEqual([true, false]);
});
