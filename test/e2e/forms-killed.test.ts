import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import {
  ChatInput,
  type Constraint,
  type DeepPartial,
  FinishReason,
  type GenerateChunk,
  type GenerateComplete,
  type GenerateStreamRequest,
  type GenerateStreamResponse,
  ToolChoiceMode,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { request, startTestGateway, type TestGateway } from '../support/gateway.js';
import { counted, killEachTime } from '../support/kill-run.js';
import { Random } from '../support/random.js';
import { writeRandomModel } from '../support/random-model.js';
import { byTier, seed } from '../support/run-size.js';

/** Texts of a model of random weights, in random order: it comes to calls and text. */
const FRAGMENTS = ['<tool_call>{"name":"weather","arguments":{"place":"', 'Rome', '東京', '"}}</tool_call>', 'So'];
const FIRST_WORD = 259;
/** Added to their logits: nothing else is said. */
const COMMON = 100;

/** Streams of each kind. */
const STREAMS = byTier({ quick: 8, default: 8, full: 16 });
const KILLS = byTier({ quick: 4, default: 4, full: 10 });
const PARAMETERS = {
  type: 'object',
  properties: { places: { type: 'array', items: { enum: ['Rome', '東京', 'Oslo'] }, minItems: 20, maxItems: 60 } },
  required: ['places'],
  additionalProperties: false,
};
const LIST = {
  type: 'array',
  minItems: 30,
  maxItems: 60,
  items: {
    anyOf: [
      { type: 'string', maxLength: 6 },
      { type: 'integer', minimum: 0, maximum: 9999 },
    ],
  },
};
/** Answers of these forms are long: each kill meets most of them. */
const CONSTRAINTS: readonly NonNullable<Constraint['kind']>[] = [
  { $case: 'jsonSchema', value: JSON.stringify(LIST) },
  { $case: 'regex', value: '([a-z]{2,9}(, | and )){60,90}[a-z]+\\.' },
  { $case: 'grammar', value: 'root ::= (word | "[" word ("," word)* "]"){80,120}\nword ::= [a-z]{1,6} " "' },
  { $case: 'choice', value: { options: ['a fox '.repeat(60), 'a frog '.repeat(50), 'an owl '.repeat(50)] } },
];

let server: TestGateway;
beforeAll(async () => {
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`);
  const words = Array.from({ length: 40 }, (_, i) => FRAGMENTS[i] ?? `word${i}`);
  const model = writeRandomModel({
    contextLength: 1024,
    chatTemplate: '{{ tools and "" }}{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> #}',
    metadata: { 'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', ...bytes, ...words] },
  });
  server = await startTestGateway(model, { stepDelayMs: 5, maxSequences: 24, maxRestarts: 100 });
});
afterAll(() => server?.stop());

interface Turn {
  text: string;
  readonly calls: { readonly name: string; argumentsJson: string }[];
  readonly ids: number[];
  end: Pick<GenerateComplete, 'finishReason'> & { readonly usage: object };
}

/** Streams one answer. @param onChunk told each piece */
async function answer(
  message: GenerateStreamRequest,
  onChunk: (chunk: GenerateChunk) => void = () => undefined,
): Promise<Turn> {
  const turn: Turn = { text: '', calls: [], ids: [], end: { finishReason: 0, usage: {} } };
  for await (const { event } of server.client.generateStream(message) as AsyncIterable<GenerateStreamResponse>) {
    if (event?.$case === 'complete') turn.end = { finishReason: event.value.finishReason, usage: counted(event.value) };
    if (event?.$case !== 'chunk') continue;
    turn.text += event.value.text;
    turn.ids.push(...event.value.tokenIds);
    for (const { index, name, argumentsJson } of event.value.toolCalls) {
      const known = turn.calls[index];
      if (known === undefined) turn.calls[index] = { name, argumentsJson };
      else known.argumentsJson += argumentsJson;
    }
    onChunk(event.value);
  }
  return turn;
}

const asked = (chat: DeepPartial<ChatInput>, rest: Parameters<typeof request>[0]): GenerateStreamRequest =>
  request({
    input: {
      $case: 'chat',
      value: ChatInput.fromPartial({ messages: [{ role: 'user', content: 'the fox' }], ...chat }),
    },
    ...rest,
  });

/** An answer that calls as the model likes. */
const calling = (seed: number, maxTokens: number): GenerateStreamRequest =>
  asked(
    { tools: [{ name: 'weather' }] },
    {
      sampling: {
        seed: BigInt(seed),
        logitBias: Object.fromEntries(FRAGMENTS.map((_, i) => [FIRST_WORD + i, COMMON])),
      },
      stop: { maxTokens, ignoreEos: true },
    },
  );

/** An answer that must call. */
const demanded = (seed: number): GenerateStreamRequest =>
  asked(
    {
      tools: [{ name: 'weather', parametersJson: JSON.stringify(PARAMETERS) }],
      toolChoice: { choice: { $case: 'mode', value: ToolChoiceMode.REQUIRED } },
    },
    { sampling: { temperature: 1, seed: BigInt(seed) }, stop: { maxTokens: 400 } },
  );

const constrained = (seed: number): GenerateStreamRequest =>
  request({
    text: 'the fox',
    constraint: { kind: CONSTRAINTS[seed % CONSTRAINTS.length] as NonNullable<Constraint['kind']> },
    sampling: { temperature: 1, seed: BigInt(seed), presencePenalty: seed % 3 === 0 ? 0.2 : 0 },
    stop: { maxTokens: 400 },
  });

it('calls and text are the same when the executor is killed while a call is written', async () => {
  const message = calling(5, 120);
  const undisturbed = await answer(message);
  expect(undisturbed.calls.length).toBeGreaterThan(2);
  expect(undisturbed.text).not.toBe('');
  let killed = 0;
  const disturbed = await answer(message, ({ toolCalls }) => {
    if (killed > 0 || !toolCalls.some(({ index }) => index === 1)) return;
    killed = server.gateway.executorPid() as number;
    process.kill(killed, 'SIGKILL');
  });
  expect(server.gateway.executorEpoch()).toBe(2);
  expect(disturbed).toEqual(undisturbed);
});

it(`${STREAMS} constrained and ${STREAMS} calling streams are the same under ${KILLS} kills of the executor`, async () => {
  const messages = Array.from({ length: 2 * STREAMS }, (_, i) => {
    if (i % 2 === 0) return constrained(i / 2);
    return i % 4 === 1 ? calling(i, 400) : demanded(i);
  });
  const undisturbed = await Promise.all(messages.map((message) => answer(message)));
  const before = server.gateway.executorEpoch();
  const left = new Set(messages.keys());
  const met: { readonly constrained: number; readonly calling: number }[] = [];
  const random = new Random(seed(20261123));
  const disturbed = messages.map((message, i) => answer(message).finally(() => left.delete(i)));
  const { kills, inStep } = await killEachTime(
    server,
    KILLS,
    () => {
      const each = [...left];
      met.push({
        constrained: each.filter((i) => i % 2 === 0).length,
        calling: each.filter((i) => i % 2 === 1).length,
      });
      return 5 + random.below(120);
    },
    () => left.size === 0,
  );
  const answers = await Promise.all(disturbed);
  const equal = answers.filter((each, i) => JSON.stringify(each) === JSON.stringify(undisturbed[i])).length;
  console.log(
    `${kills} kills, ${inStep} in a step, ${equal} of ${answers.length} answers equal; met ${JSON.stringify(met)}`,
  );
  for (const [i, each] of answers.entries()) expect(each, `stream ${i}`).toEqual(undisturbed[i]);
  // Each kill was one, and met streams of both kinds.
  expect(kills).toBe(KILLS);
  expect(server.gateway.executorEpoch()).toBe(before + KILLS);
  for (const running of met) expect(Math.min(running.constrained, running.calling)).toBeGreaterThan(0);
  // They are what they are there for.
  const isList = new Ajv2020().compile(LIST);
  const calls = new Ajv2020().compile(PARAMETERS);
  for (const [i, { text, calls: called, end }] of answers.entries()) {
    if (i % 2 === 1) expect(called.length).toBeGreaterThan(0);
    if (i % 4 === 3 && end.finishReason === FinishReason.TOOL_CALLS) {
      for (const { argumentsJson } of called) expect(calls(JSON.parse(argumentsJson)), argumentsJson).toBe(true);
    }
    if (i % 8 === 0 && end.finishReason === FinishReason.STOP) expect(isList(JSON.parse(text)), text).toBe(true);
  }
});
