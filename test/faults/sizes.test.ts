import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FIELD_LIMITS } from '../../src/gateway/request/limits.js';
import {
  ChatInput,
  ChatMessage,
  DetokenizeRequest,
  GenerateRequest,
  GetModelRequest,
  MixedInput,
  OutputOptions,
  TokenizeRequest,
  Tool,
  ToolCall,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';
import { packageRoot } from '../../src/shared/package.js';
import { type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';
import { generate, request } from '../support/gateway.js';

const CONTEXT = 4096;
const TEMPLATE =
  '{% if tools %}<tool_call>{% endif %}{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}';

type Parts = Parameters<typeof request>[0];
const text = 'the fox';
const repeated = <T>(count: number, item: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => item(i));
const letters = (count: number) => 'a'.repeat(count);
const mixed = (parts: readonly (readonly number[])[]): Parts => ({
  input: {
    $case: 'mixed',
    value: MixedInput.fromPartial({
      parts: parts.map((ids) => ({ part: { $case: 'tokens', value: { ids: [...ids] } } })),
    }),
  },
});
const chat = (parts: Partial<ChatInput>): Parts => ({ input: { $case: 'chat', value: ChatInput.fromPartial(parts) } });
const turn = (parts: Partial<ChatMessage> = {}): ChatMessage =>
  ChatMessage.fromPartial({ role: 'user', content: 'the', ...parts });
const call = (parts: Partial<ToolCall> = {}): ToolCall =>
  ToolCall.fromPartial({ id: 'a', name: 'f', argumentsJson: '{}', ...parts });
const output = (parts: Partial<OutputOptions>): Parts => ({ output: OutputOptions.fromPartial(parts) });

/**
 * Every string and repeated field of a generation's request, and every number that counts: the request in which it holds so
 * much, and its limit, if it has one of its own. The others are bounded by what they are told in.
 */
const GENERATION: Record<
  string,
  { readonly of: (size: number) => Parts; readonly limit?: number; readonly field?: string }
> = {
  model: { of: (n) => ({ text, model: letters(n) }), limit: 256 },
  request_id: { of: (n) => ({ text, requestId: letters(n) }), limit: 128 },
  'text.text': { of: (n) => ({ text: letters(n) }) },
  'tokens.ids': { of: (n) => ({ tokens: repeated(n, () => 270) }), limit: CONTEXT },
  'mixed.parts': { of: (n) => mixed(repeated(n, () => [270])), limit: 4096 },
  'mixed.parts.tokens.ids': { of: (n) => mixed([repeated(n, () => 270)]) },
  'chat.messages': { of: (n) => chat({ messages: repeated(n, () => turn()) }), limit: 4096 },
  'chat.messages.role': { of: (n) => chat({ messages: [turn({ role: letters(n) })] }), limit: 64 },
  'chat.messages.content': { of: (n) => chat({ messages: [turn({ content: letters(n) })] }) },
  'chat.messages.reasoning': { of: (n) => chat({ messages: [turn({ role: 'assistant', reasoning: letters(n) })] }) },
  'chat.messages.name': { of: (n) => chat({ messages: [turn({ name: letters(n) })] }), limit: 256 },
  'chat.messages.tool_calls': {
    of: (n) => chat({ messages: [turn({ role: 'assistant', toolCalls: repeated(n, () => call()) })] }),
    limit: 128,
  },
  'chat.messages.tool_call_id': {
    of: (n) => chat({ messages: [turn({ role: 'tool', toolCallId: letters(n) })] }),
    limit: 256,
  },
  'chat.messages.tool_calls.id': {
    of: (n) => chat({ messages: [turn({ role: 'assistant', toolCalls: [call({ id: letters(n) })] })] }),
    limit: 256,
  },
  'chat.messages.tool_calls.name': {
    of: (n) => chat({ messages: [turn({ role: 'assistant', toolCalls: [call({ name: letters(n) })] })] }),
    limit: 256,
  },
  'chat.messages.tool_calls.arguments_json': {
    of: (n) =>
      chat({ messages: [turn({ role: 'assistant', toolCalls: [call({ argumentsJson: `"${letters(n)}"` })] })] }),
  },
  'chat.tools': {
    of: (n) => chat({ messages: [turn()], tools: repeated(n, () => Tool.fromPartial({ name: 'f' })) }),
    limit: 256,
  },
  'chat.tools.name': {
    of: (n) => chat({ messages: [turn()], tools: [Tool.fromPartial({ name: letters(n) })] }),
    limit: 256,
  },
  'chat.tools.description': {
    of: (n) => chat({ messages: [turn()], tools: [Tool.fromPartial({ name: 'f', description: letters(n) })] }),
    limit: 65_536,
  },
  'chat.tools.parameters_json': {
    of: (n) => chat({ messages: [turn()], tools: [Tool.fromPartial({ name: 'f', parametersJson: jsonOf(n) })] }),
    limit: 262_144,
  },
  'chat.tool_choice.function': {
    of: (n) => {
      const tools = [Tool.fromPartial({ name: letters(n) })];
      return chat({ messages: [turn()], tools, toolChoice: { choice: { $case: 'function', value: letters(n) } } });
    },
  },
  'chat.template_variables_json': {
    of: (n) => {
      const templateVariablesJson = n < 8 ? '1'.repeat(n) : `{"a":"${'x'.repeat(n - 8)}"}`;
      return chat({ messages: [turn()], templateVariablesJson });
    },
    limit: 65_536,
  },
  'sampling.text_bias': {
    of: (n) => ({ text, sampling: { textBias: Object.fromEntries(repeated(n, (i) => [`${i}`, 1])) } }),
    limit: 256,
  },
  'sampling.text_bias (each)': {
    of: (n) => ({ text, sampling: { textBias: { [letters(n)]: 1 } } }),
    limit: 256,
    field: 'sampling.text_bias',
  },
  'sampling.logit_bias': {
    of: (n) => ({ text, sampling: { logitBias: Object.fromEntries(repeated(n, (i) => [i, 1])) } }),
    limit: 256,
  },
  'stop.strings': { of: (n) => ({ text, stop: { maxTokens: 1, strings: repeated(n, (i) => `${i}`) } }), limit: 64 },
  'stop.strings (each)': {
    of: (n) => ({ text, stop: { maxTokens: 1, strings: [letters(n)] } }),
    limit: 256,
    field: 'stop.strings',
  },
  'stop.strings (in all)': {
    of: (n) => {
      const each = Math.ceil(n / 64);
      const strings = repeated(Math.floor(n / Math.max(1, each)), () => letters(each));
      const rest = n - strings.length * each;
      return { text, stop: { maxTokens: 1, strings: rest > 0 ? [...strings, letters(rest)] : strings } };
    },
    limit: 1024,
    field: 'stop.strings',
  },
  'stop.token_ids': { of: (n) => ({ text, stop: { maxTokens: 1, tokenIds: repeated(n, () => 270) } }), limit: 256 },
  'output.logprobs': { of: (n) => ({ text, ...output({ logprobs: n }) }), limit: 20 },
  'output.logprob_tokens.ids': {
    of: (n) => ({ text, ...output({ logprobTokens: { ids: repeated(n, (i) => i % 256) } }) }),
    limit: 20,
  },
  'output.prompt_logprobs': { of: (n) => ({ text, ...output({ promptLogprobs: n }) }), limit: 20 },
  n: { of: (n) => ({ text, n }), limit: 64 },
  priority: { of: (n) => ({ text, priority: n }), limit: 3 },
  time_limit_ms: { of: (n) => ({ text, timeLimitMs: n }), limit: 2 ** 31 - 1 },
  'constraint.json_schema': { of: (n) => ({ text, constraint: { kind: { $case: 'jsonSchema', value: letters(n) } } }) },
  'constraint.regex': { of: (n) => ({ text, constraint: { kind: { $case: 'regex', value: letters(n) } } }) },
  'constraint.grammar': { of: (n) => ({ text, constraint: { kind: { $case: 'grammar', value: letters(n) } } }) },
  'constraint.choice.options': {
    of: (n) => ({ text, constraint: { kind: { $case: 'choice', value: { options: repeated(n, () => 'a') } } } }),
  },
};

/** Proto messages that a request is made of, and where their fields stand in it. */
const PLACES: Record<string, string> = {
  GenerateStreamRequest: '',
  TextInput: 'text.',
  TokenInput: 'tokens.',
  MixedInput: 'mixed.',
  ChatInput: 'chat.',
  ChatMessage: 'chat.messages.',
  ToolCall: 'chat.messages.tool_calls.',
  Tool: 'chat.tools.',
  ToolChoice: 'chat.tool_choice.',
  SamplingParameters: 'sampling.',
  StopConditions: 'stop.',
  OutputOptions: 'output.',
  Constraint: 'constraint.',
  ChoiceConstraint: 'constraint.choice.',
};

/** JSON of so many characters. */
function jsonOf(characters: number): string {
  return characters < 2 ? '1'.repeat(characters) : `"${'x'.repeat(characters - 2)}"`;
}

describe('the size of each field', () => {
  let server: FakeGateway;
  const counts = { requests: 0, answered: 0, refused: new Map<string, number>() };
  beforeAll(async () => {
    server = await startFakeGateway({
      model: { contextLength: CONTEXT, chatTemplate: TEMPLATE },
      maxContext: CONTEXT,
      maxSequences: 64,
      stepMs: 0,
      maxPriority: 3,
    });
  });
  afterAll(async () => {
    await server?.stop();
    const refused = [...counts.refused].map(([reason, count]) => `${count} ${reason}`).join(', ');
    console.log(`${counts.requests} requests: ${counts.answered} answered, refused ${refused}`);
  });

  /** `answered`, or the reason of the refusal and its field; anything else is a failure. */
  async function outcome(answer: Promise<unknown>): Promise<string> {
    counts.requests += 1;
    try {
      await answer;
      counts.answered += 1;
      return 'answered';
    } catch (thrown) {
      const error = thrown as ServiceError;
      const info = errorInfo(error);
      expect(info, `${status[error.code]} ${error.details}`).toBeDefined();
      expect(info?.reason).not.toBe('INTERNAL');
      counts.refused.set(info?.reason ?? '', (counts.refused.get(info?.reason ?? '') ?? 0) + 1);
      return `${info?.reason} ${info?.metadata.field ?? ''}`.trim();
    }
  }

  const unary = <Request, Response>(
    method: (message: Request, callback: (error: ServiceError | null, response: Response) => void) => unknown,
    message: Request,
  ): Promise<Response> =>
    new Promise((resolve, reject) => {
      method.call(server.client, message, (error, response) => (error ? reject(error) : resolve(response)));
    });

  it('is in the list below, for every string, list and map of the proto', () => {
    const proto = readFileSync(path.join(packageRoot, 'proto/rocmforge/v1/inference.proto'), 'utf8');
    const missing = Object.entries(PLACES).flatMap(([message, place]) => {
      const body = new RegExp(`^message ${message} \\{\\n([\\s\\S]*?)^\\}`, 'm').exec(proto)?.[1] ?? '';
      const fields = [...body.matchAll(/^\s+(?:repeated \w+|string|map<[^>]+>) (\w+) = /gm)];
      expect(body, message).not.toBe('');
      return fields.map(([, field]) => `${place}${field}`).filter((field) => !(field in GENERATION));
    });
    expect(missing).toEqual([]);
    const limited = new Set(FIELD_LIMITS.map(({ field }) => field).filter((field) => field !== 'token_ids'));
    expect([...limited].filter((field) => !(field in GENERATION))).toEqual([]);
  });

  describe.each(Object.entries(GENERATION))('%s', (name, { of, limit, field = name }) => {
    const run = (size: number) => {
      const { stop, ...parts } = of(size);
      return outcome(generate(server.client, request({ stop: { maxTokens: 1, ...stop }, ...parts })));
    };
    const isKnown = (size: number) => !(name === 'model' && size > 0) && !(name === 'chat.messages.role' && size > 0);

    it('of 0, 1 and 2^20 is answered or refused with a reason', async () => {
      for (const size of [0, 1, 1 << 20]) await run(size);
      expect(await outcome(generate(server.client, request({ text, stop: { maxTokens: 1 } })))).toBe('answered');
    });

    it.skipIf(limit === undefined)('of its limit is taken, of one more refused by name', async () => {
      const most = limit as number;
      const taken = await run(most);
      if (name.startsWith('chat.') && name !== 'chat.messages.role') {
        // Long conversations are longer than the context.
        expect(['answered', 'PROMPT_TOO_LONG chat']).toContain(taken);
      } else if (name === 'tokens.ids') expect(taken).toBe('PROMPT_TOO_LONG tokens');
      else if (name === 'mixed.parts') expect(taken).toBe('PROMPT_TOO_LONG mixed');
      else if (isKnown(most)) expect(taken).toBe('answered');
      else expect(taken).not.toBe(`INVALID_FIELD ${field}`);
      const reason = name === 'tokens.ids' ? 'PROMPT_TOO_LONG' : 'INVALID_FIELD';
      expect(await run(most + 1)).toBe(`${reason} ${field}`);
    });
  });

  it.each([0, 1, CONTEXT, CONTEXT + 1, 1 << 20])('of %i token ids to Detokenize', async (size) => {
    const tokenIds = repeated(size, () => 270);
    const { detokenize } = server.client;
    const result = await outcome(unary(detokenize, DetokenizeRequest.fromPartial({ tokenIds })));
    expect(result).toBe(
      size <= CONTEXT ? 'answered' : size > 1 << 16 ? 'MESSAGE_TOO_LARGE' : 'INVALID_FIELD token_ids',
    );
  });

  it.each([0, 1, 256, 257, 1 << 20])('of a model’s name of %i characters to every method', async (size) => {
    const model = letters(size);
    const { client } = server;
    const input = { $case: 'text', value: { text, parseSpecial: false, addSpecial: undefined } } as const;
    const results = await Promise.all([
      outcome(unary(client.getModel, GetModelRequest.fromPartial({ model }))),
      outcome(unary(client.detokenize, DetokenizeRequest.fromPartial({ model, tokenIds: [270] }))),
      outcome(unary(client.tokenize, { ...TokenizeRequest.create(), model, input })),
      outcome(unary(client.generate, { ...GenerateRequest.fromPartial({ model, stop: { maxTokens: 1 } }), input })),
    ]);
    const expected =
      size === 0 ? /^answered$/ : size <= 256 ? /^MODEL_NOT_FOUND model$/ : /^(INVALID_FIELD model|MESSAGE_TOO_LARGE)$/;
    for (const result of results) expect(result).toMatch(expected);
  });

  it.each([1, 1000, 1 << 20])('of a text of %i characters to Tokenize, which has no context to fit', async (size) => {
    const input = { $case: 'text', value: { text: letters(size), parseSpecial: false, addSpecial: false } } as const;
    const { tokenIds } = (await unary(server.client.tokenize, { ...TokenizeRequest.create(), input })) as {
      tokenIds: number[];
    };
    expect(tokenIds.length).toBeGreaterThanOrEqual(size);
  });

  it('of all log probabilities of a unary answer', async () => {
    const all = (logprobs: number, maxTokens: number, n = 1) =>
      outcome(
        unary(
          server.client.generate,
          GenerateRequest.fromPartial({
            ...request({ text, n }),
            stop: { maxTokens, ignoreEos: true },
            output: { logprobs },
          }),
        ),
      );
    expect(await all(20, 10, 2)).toBe('answered');
    expect(await all(20, 4000, 64)).toBe('INVALID_FIELD output.logprobs');
  });
});
