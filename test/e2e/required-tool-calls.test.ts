import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import type { ChatCompletion, ChatCompletionMessageFunctionToolCall } from 'openai/resources';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.js';
import { baseOf } from '../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{% for m in messages %}{{ m.content }} {% endfor %}' +
  '{# <tool_call> #}';
const WEATHER = {
  type: 'object',
  properties: { place: { type: 'string', maxLength: 12 }, unit: { enum: ['C', 'F'] } },
  required: ['place', 'unit'],
  additionalProperties: false,
};
const CLOCK = {
  type: 'object',
  properties: { hour: { type: 'integer', minimum: 0, maximum: 23 }, zones: { $ref: '#/$defs/zones' } },
  required: ['hour'],
  additionalProperties: false,
  $defs: { zones: { type: 'array', items: { type: 'string', maxLength: 4 }, maxItems: 2 } },
};
const ajv = new Ajv2020();
const VALIDATORS: Readonly<Record<string, ReturnType<typeof ajv.compile>>> = {
  weather: ajv.compile(WEATHER),
  clock: ajv.compile(CLOCK),
};
const tools = Object.entries({ weather: WEATHER, clock: CLOCK }).map(([name, parameters]) => ({
  type: 'function' as const,
  function: { name, parameters, strict: true },
}));
const messages = [{ role: 'user' as const, content: 'Once upon a time' }];
const SEEDS = [...Array(8).keys()];

let server: TestGateway;
let openai: OpenAI;
beforeAll(async () => {
  const chatTemplate = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'template.jinja');
  writeFileSync(chatTemplate, TEMPLATE);
  server = await startTestGateway('models/demo.gguf', {
    ...{ chatTemplate, modelName: 'demo', httpListen: '127.0.0.1:0', maxContext: 1024, stepDelayMs: 2 },
  });
  openai = new OpenAI({ baseURL: `${baseOf(server.gateway)}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => server?.stop());

type Choice = ChatCompletion.Choice;

/** The calls of an answer, each of which was held to its schema. */
function callsOf({ message }: Choice): string[] {
  const calls = (message.tool_calls ?? []) as ChatCompletionMessageFunctionToolCall[];
  for (const { function: called } of calls) {
    const validate = VALIDATORS[called.name]!;
    expect(validate(JSON.parse(called.arguments)), `${called.arguments}: ${ajv.errorsText(validate.errors)}`).toBe(
      true,
    );
  }
  return calls.map(({ function: { name } }) => name);
}

async function chosen(parts: Partial<OpenAI.ChatCompletionCreateParamsNonStreaming>): Promise<Choice[]> {
  const answers = SEEDS.map((seed) =>
    openai.chat.completions.create({ model: 'demo', messages, tools, temperature: 1, seed, max_tokens: 800, ...parts }),
  );
  const choices = (await Promise.all(answers)).map((answer) => answer.choices[0]!);
  for (const { finish_reason, message } of choices) {
    expect(finish_reason).toBe('tool_calls');
    expect(message.content).toBeNull();
  }
  return choices;
}

describe('at temperature 1, of a model that was trained on no calls', () => {
  it('a call that is required comes, and each satisfies its schema', async () => {
    const called = (await chosen({ tool_choice: 'required', parallel_tool_calls: false })).map(callsOf);
    for (const names of called) expect(names).toHaveLength(1);
    expect(new Set(called.flat())).toEqual(new Set(['weather', 'clock']));
  });

  it('several calls come where they may', async () => {
    const called = (await chosen({ tool_choice: 'required' })).map(callsOf);
    expect(Math.max(...called.map(({ length }) => length))).toBeGreaterThan(1);
  });

  it('the function that is named is called, once', async () => {
    const called = await chosen({ tool_choice: { type: 'function', function: { name: 'clock' } } });
    for (const choice of called) expect(callsOf(choice)).toEqual(['clock']);
  });
});

describe('with a response_format', () => {
  const schema = {
    type: 'object',
    properties: { rain: { type: 'boolean' }, days: { type: 'integer', minimum: 1, maximum: 9 } },
    required: ['rain', 'days'],
    additionalProperties: false,
  };
  const isAnswer = ajv.compile(schema);
  const response_format = { type: 'json_schema', json_schema: { name: 'forecast', schema } } as const;
  const loose = tools.map(({ function: { strict: _, ...called }, ...rest }) => ({ ...rest, function: called }));
  const answered = (parts: object) =>
    Promise.all(
      SEEDS.map(async (seed) => {
        const body = {
          model: 'demo',
          messages,
          tools,
          response_format,
          temperature: 1,
          seed,
          max_tokens: 800,
          ...parts,
        };
        const { choices } = await openai.chat.completions.create(body as OpenAI.ChatCompletionCreateParamsNonStreaming);
        return choices[0]!;
      }),
    );

  it('an answer is a call that satisfies its schema, or a text that satisfies the format', async () => {
    const choices = await answered({});
    const ends = new Set(choices.map(({ finish_reason }) => finish_reason));
    for (const choice of choices) {
      const { content, tool_calls } = choice.message;
      if (tool_calls === undefined) expect(isAnswer(JSON.parse(content as string))).toBe(true);
      else {
        expect(content).toBeNull();
        callsOf(choice);
      }
    }
    expect([...ends].every((end) => end === 'tool_calls' || end === 'stop')).toBe(true);
  });

  it.each([
    ['strict', tools],
    ['other', loose],
  ])('%s functions are called, and texts are of the format, whichever is likelier', async (_kind, offered) => {
    const called = await answered({ tools: offered, logit_bias: { '{': -100 } });
    for (const choice of called) {
      expect(choice.message.content).toBeNull();
      expect(choice.message.tool_calls?.length).toBeGreaterThan(0);
      if (offered === tools) expect([choice.finish_reason, callsOf(choice).length > 0]).toEqual(['tool_calls', true]);
    }
    const said = await answered({ tools: offered, logit_bias: { '<': -100 } });
    for (const { message, finish_reason } of said) {
      expect([finish_reason, message.tool_calls]).toEqual(['stop', undefined]);
      expect(isAnswer(JSON.parse(message.content as string))).toBe(true);
    }
  });

  it('a call that is required leaves nothing for it to say', async () => {
    for (const choice of await answered({ tool_choice: 'required' })) expect(callsOf(choice).length).toBeGreaterThan(0);
  });
});

describe('in the Responses API, where functions are strict unless the request says otherwise', () => {
  const format = { type: 'json_schema', name: 'n', schema: { type: 'object' } } as const;
  /** The calls of responses whose text is an object, which does not begin. */
  async function called(parts: object): Promise<readonly { name: string; arguments: string }[]> {
    const functions = tools.map(({ function: { name, parameters } }) => ({
      type: 'function',
      name,
      parameters,
      ...parts,
    }));
    const responses = await Promise.all(
      SEEDS.map((seed) => {
        const body = {
          ...{ model: 'demo', input: 'Once', tools: functions, text: { format }, temperature: 1, seed },
          ...{ max_output_tokens: 800, logit_bias: { '{': -100 } },
        };
        return openai.responses.create(body as OpenAI.Responses.ResponseCreateParamsNonStreaming);
      }),
    );
    return responses.flatMap(({ output }) => output.filter((item) => item.type === 'function_call'));
  }
  const matches = ({ name, arguments: json }: { name: string; arguments: string }): boolean => {
    try {
      return VALIDATORS[name]!(JSON.parse(json)) === true;
    } catch {
      return false;
    }
  };

  it.each([{}, { strict: null }, { strict: true }])('calls match their schemas with %j', async (parts) => {
    const calls = await called(parts);
    expect(calls.length).toBeGreaterThanOrEqual(SEEDS.length);
    expect(calls.filter((call) => !matches(call))).toEqual([]);
  });

  it('and need not with strict: false, or with a schema that cannot be enforced', async () => {
    const loose = await called({ strict: false });
    expect(loose.some((call) => !matches(call))).toBe(true);
    const parameters = { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } };
    expect((await called({ parameters })).length).toBeGreaterThan(0);
    await expect(called({ parameters, strict: true })).rejects.toMatchObject({ status: 400 });
  });
});

it('a call that is required is the same when the executor is killed in the middle of it', async () => {
  const streamed = async (onArguments: () => void) => {
    const stream = openai.chat.completions.stream({
      ...{ model: 'demo', messages, tools, tool_choice: 'required', temperature: 1, seed: 3, max_tokens: 800 },
    });
    stream.on('tool_calls.function.arguments.delta', onArguments);
    const { choices } = await stream.finalChatCompletion();
    const { message, finish_reason } = choices[0]!;
    const calls = callsOf(choices[0]! as Choice);
    const args = (message.tool_calls ?? []).map((call) => (call as ChatCompletionMessageFunctionToolCall).function);
    return { calls, args: args.map(({ arguments: json }) => json), finish_reason };
  };
  const undisturbed = await streamed(() => undefined);
  expect(undisturbed.finish_reason).toBe('tool_calls');
  const before = server.gateway.executorEpoch();
  let pieces = 0;
  const disturbed = await streamed(() => {
    pieces += 1;
    if (pieces === 3) process.kill(server.gateway.executorPid() as number, 'SIGKILL');
  });
  expect(server.gateway.executorEpoch()).toBe(before + 1);
  expect(disturbed).toEqual(undisturbed);
});

describe('a call that is demanded is refused by name', () => {
  it.each([
    [{ tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'objekt' } } }] }, 'tools'],
    [{ tools: [{ type: 'function', function: { name: '</s>[' } }] }, 'tools[0].function.name'],
    [{ ignore_eos: true }, 'ignore_eos'],
  ])('with %j', async (parts, param) => {
    const call = openai.chat.completions.create({
      ...{ model: 'demo', messages, tools, tool_choice: 'required' },
      ...(parts as object),
    });
    await expect(call).rejects.toMatchObject({ status: 400, param });
  });
});
