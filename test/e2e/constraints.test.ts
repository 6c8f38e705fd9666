import type { ServiceError } from '@grpc/grpc-js';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Constraint,
  FinishReason,
  type GenerateStreamRequest,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { type Generated, generate, request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier } from '../support/run-size.js';
import { SCHEMAS } from '../support/schemas.js';

const MODEL = 'models/demo.gguf';
const GENERATIONS = byTier({ quick: 40, default: 40, full: 400 });
const CLIENTS = 32;
const KILLS = byTier({ quick: 3, default: 3, full: 5 });

const ajv = new Ajv2020({ strict: false, validateFormats: false });
const validators = SCHEMAS.map((schema) => ajv.compile(schema));

type Kind = NonNullable<Constraint['kind']>;
const asked = (kind: Kind, rest: Parameters<typeof request>[0] = {}): GenerateStreamRequest =>
  request({ text: 'Once upon a time', constraint: { kind }, ...rest });

let server: TestGateway;
beforeAll(async () => {
  server = await startTestGateway(MODEL, { maxRestarts: 100, maxContext: 512 });
});
afterAll(() => server.stop());

describe('an answer of a form', () => {
  it.each<[string, Kind, RegExp]>([
    [
      'a regular expression',
      { $case: 'regex', value: '[A-Z][a-z]{2,7} (is|was) \\d{1,3}\\.' },
      /^[A-Z][a-z]{2,7} (is|was) \d{1,3}\.$/,
    ],
    [
      'one of some strings',
      { $case: 'choice', value: { options: ['a fox', 'a frog', 'an owl'] } },
      /^(a fox|a frog|an owl)$/,
    ],
    [
      'a grammar',
      { $case: 'grammar', value: 'root ::= word (", " word)* "."\nword ::= [a-z]{1,6}' },
      /^[a-z]{1,6}(, [a-z]{1,6})*\.$/,
    ],
  ])('is %s', async (_what, kind, pattern) => {
    for (const seed of [1n, 2n, 3n]) {
      const message = asked(kind, { sampling: { temperature: 1.5, seed }, stop: { maxTokens: 200 } });
      const answer = await generate(server.client, message);
      expect(answer.complete?.finishReason).toBe(FinishReason.STOP);
      expect(answer.text).toMatch(pattern);
    }
  });

  it.each(['the demo model', 'a model of random weights'])('is of its schema, each that ends, of %s', async (what) => {
    const isDemo = what === 'the demo model';
    const random = isDemo ? undefined : await startTestGateway(writeRandomModel({ contextLength: 512 }));
    const { client: of } = random ?? server;
    const answers: Generated[] = [];
    const left = Array.from({ length: GENERATIONS }).keys();
    const client = async (): Promise<void> => {
      for (const i of left) {
        const value = JSON.stringify(SCHEMAS[i % SCHEMAS.length]);
        const sampling = { temperature: 1.5, seed: BigInt(i) };
        const message = asked({ $case: 'jsonSchema', value }, { sampling, stop: { maxTokens: 400 } });
        answers[i] = await generate(of, message);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    await random?.stop();
    let ended = 0;
    for (const [i, { text, complete }] of answers.entries()) {
      if (complete?.finishReason !== FinishReason.STOP) continue;
      ended += 1;
      const validate = validators[i % SCHEMAS.length]!;
      expect(validate(JSON.parse(text)), `${text}: ${ajv.errorsText(validate.errors)}`).toBe(true);
    }
    console.log(
      `${GENERATIONS} generations over ${SCHEMAS.length} schemas by ${what}, ${ended} ended, all of them valid`,
    );
    // Random weights say what they like for long.
    expect(ended).toBeGreaterThan((isDemo ? 0.9 : 0.5) * GENERATIONS);
  });

  it('may be any JSON object', async () => {
    const message = asked(
      { $case: 'jsonSchema', value: '{}' },
      { sampling: { temperature: 0 }, stop: { maxTokens: 60 } },
    );
    expect((await generate(server.client, message)).text).toMatch(/^\{/);
  });

  it('ends where nothing may follow, though more tokens were asked for', async () => {
    const kind: Kind = { $case: 'choice', value: { options: ['yes', 'no'] } };
    const answer = await generate(server.client, asked(kind, { stop: { minTokens: 50, maxTokens: 60 } }));
    expect(['yes', 'no']).toContain(answer.text);
    expect(answer.complete?.finishReason).toBe(FinishReason.STOP);
    expect(answer.complete?.stopMatch).toBeUndefined();
  });

  it('comes n times, with log probabilities of all tokens, penalties and a bias', async () => {
    const kind: Kind = { $case: 'regex', value: '(ha|ho|hi){3,9}!' };
    const message = asked(kind, {
      n: 3,
      sampling: { temperature: 1, seed: 4n, frequencyPenalty: 0.5, repetitionPenalty: 1.2, logitBias: { 300: 2 } },
      output: { logprobs: 5, promptLogprobs: undefined, echo: false, includeSpecialTokens: false, promptText: false },
    });
    const { completions } = await generate(server.client, message);
    expect(completions).toHaveLength(3);
    for (const { text, logprobs, tokenIds } of completions) {
      expect(text).toMatch(/^(ha|ho|hi){3,9}!$/);
      expect(logprobs).toHaveLength(tokenIds.length);
      // Raw probabilities: tokens that the form forbids are among the likeliest.
      expect(logprobs.some(({ tokenId, top }) => top.every((likely) => likely.tokenId !== tokenId))).toBe(true);
    }
  });
});

it.each<[string, Kind | undefined, Parameters<typeof request>[0], string, RegExp]>([
  ['a schema that is none', { $case: 'jsonSchema', value: '{"type": 5}' }, {}, 'CONSTRAINT_INVALID', /\/type/],
  ['a schema that is not JSON', { $case: 'jsonSchema', value: '{' }, {}, 'CONSTRAINT_INVALID', /json_schema/],
  [
    'what cannot be kept of one',
    { $case: 'jsonSchema', value: '{"type":"array","uniqueItems":true}' },
    {},
    'CONSTRAINT_UNSUPPORTED',
    /uniqueItems/,
  ],
  ['a look-around', { $case: 'regex', value: '(?<=a)b' }, {}, 'CONSTRAINT_UNSUPPORTED', /regex/],
  ['a grammar without its rule', { $case: 'grammar', value: 'root ::= word' }, {}, 'CONSTRAINT_INVALID', /word/],
  ['nothing to choose from', { $case: 'choice', value: { options: [] } }, {}, 'CONSTRAINT_INVALID', /choice/],
  ['no end', { $case: 'regex', value: 'a' }, { stop: { ignoreEos: true } }, 'INVALID_FIELD', /ignore_eos/],
])('%s is refused, by name', async (_what, kind, rest, reason, message) => {
  const error = await generate(server.client, asked(kind as Kind, rest)).then(
    () => undefined,
    (thrown: ServiceError) => thrown,
  );
  expect(error && errorInfo(error)?.reason).toBe(reason);
  expect(error?.details).toMatch(message);
});

it('sixteen constrained streams beside sixteen free ones are the same when executors are killed', async () => {
  const messages = Array.from({ length: 32 }, (_, i) => {
    const rest = { sampling: { temperature: 1, seed: BigInt(i), presencePenalty: i % 2 }, stop: { maxTokens: 120 } };
    const value = JSON.stringify(SCHEMAS[(7 * i) % SCHEMAS.length]);
    return i % 2 === 0 ? asked({ $case: 'jsonSchema', value }, rest) : request({ text: 'There was', ...rest });
  });
  const plain = await startTestGateway(MODEL, {
    pipelineDepth: 1,
    maxSequences: 1,
    maxContext: 512,
    prefixCache: false,
  });
  const expected: Generated[] = [];
  for (const message of messages) expected.push(await generate(plain.client, message));
  await plain.stop();

  let answers: Generated[] = [];
  for (let kill = 0; kill < KILLS; kill++) {
    const before = server.gateway.executorEpoch();
    const running = Promise.all(messages.map((message) => generate(server.client, message)));
    while (server.gateway.replica.counts.running === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 20 + 30 * kill));
    process.kill(server.gateway.executorPid() as number, 'SIGKILL');
    answers = await running;
    expect(server.gateway.executorEpoch()).toBeGreaterThan(before);
    for (const [i, { tokenIds, text }] of answers.entries()) {
      expect({ tokenIds, text }, `kill ${kill}, stream ${i}`).toEqual({
        tokenIds: expected[i]?.tokenIds,
        text: expected[i]?.text,
      });
    }
  }
});
