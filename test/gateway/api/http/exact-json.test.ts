import { gzipSync } from 'node:zlib';
import { create, type DescMessage, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isJsonObject, JsonNumber, jsonText, numberText, parseJson } from '../../../../src/lib/json/exact-json.js';
import { ChatMessage } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { at, CONSTRAINED_APIS, eventsOf } from '../../../support/constrained-apis.js';
import { equalJson } from '../../../support/exact-validator.js';
import { writtenJson } from '../../../support/exact-values.js';
import { type FakeGateway, startFakeGateway } from '../../../support/fake-gateway.js';
import { generate, request } from '../../../support/gateway.js';
import { API_SERVICE, apiRegistry, ask } from '../../../support/http.js';
import { byTier, runs, seed } from '../../../support/run-size.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{{ "\\n§\\n" }}{% for m in messages %}{{ m.content }}' +
  '{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{% endfor %}' +
  '{{ "\\n§\\n" }}{% if shown is defined %}{{ shown | tojson }}{% endif %}';
const messages = [{ role: 'user', content: 'q' }];
const GENERATE = `/${API_SERVICE}/Generate`;
const STREAM = `/${API_SERVICE}/GenerateStream`;

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({
    ...{ model: { chatTemplate: TEMPLATE }, modelName: 'm', httpListen: '127.0.0.1:0', stepMs: 0, maxContext: 4096 },
  });
});
afterAll(() => server.stop());

const post = (path: string, body: string | Uint8Array, headers: Record<string, string> = {}) =>
  ask(server.gateway, path, body, { headers });

describe('a value that only one answer has', () => {
  const values = fc
    .sample(writtenJson, { numRuns: byTier({ quick: 4, default: 4, full: 80 }), seed: seed(21) })
    .map(({ text }) => text);

  it.each([...values, '9007199254740993', '{"b": 1.0, "10": -0.0, "2": 12345678901234567891}'])(
    'comes back from every API, unary and streamed (%#)',
    async (text) => {
      const schema = `{"type": "object", "properties": {"10": {"const": ${text}}, "2": {"enum": [${text}]}}, "required": ["2", "10"], "additionalProperties": false}`;
      const expected = parseJson(`{"10": ${text}, "2": ${text}}`);
      const asked = Object.entries(CONSTRAINED_APIS).map(async ([api, answersOf]) => {
        for (const answer of await answersOf(server, schema)) {
          expect(equalJson(parseJson(answer), expected), `${api}: ${answer}`).toBe(true);
          expect(Object.keys(parseJson(answer) as object), api).toEqual(['10', '2']);
        }
      });
      await Promise.all(asked);
    },
  );
});

describe('what a template is given', () => {
  it('is what was sent: tools, variables and the input of calls', () => {
    return fc.assert(
      fc.asyncProperty(writtenJson, async ({ text }) => {
        const shown = async (path: string, body: string) =>
          String(at(parseJson((await post(path, body)).text), 'prompt'));
        const parts = [{ role: 'user', content: 'q' }].map((one) => JSON.stringify(one)).join();
        const rest = `"chat_template_kwargs": {"shown": ${text}}, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"default": ${text}}}}]`;
        const prompt = await shown('/apply-template', `{"messages": [${parts}], ${rest}}`);
        const [tool = '', , variable = ''] = prompt.split('\n§\n');
        const given = at(parseJson(tool), 'function', 'parameters', 'default');
        expect(jsonText(pythonNumbers(given))).toBe(jsonText(pythonNumbers(parseJson(text))));
        expect(jsonText(pythonNumbers(parseJson(variable)))).toBe(jsonText(pythonNumbers(parseJson(text))));
      }),
      { numRuns: runs(400), seed: seed(22) },
    );
  });
});

/** Numbers as Python writes them: integers exactly, others as doubles. */
function pythonNumbers(value: unknown): unknown {
  if (value instanceof JsonNumber || typeof value === 'number') {
    const text = numberText(value);
    return /[.eE]/.test(text) ? Number(text) : String(BigInt(text));
  }
  if (Array.isArray(value)) return value.map(pythonNumbers);
  if (!isJsonObject(value)) return value;
  return Object.entries(value).map(([key, member]) => [key, pythonNumbers(member)]);
}

describe('a seed', () => {
  const SEEDS = ['0', '9007199254740993', '4021973709219479001', '18446744073709551615'];

  it.each(SEEDS)('%s is taken exactly and reported exactly, by each API', async (text) => {
    const completion = await post('/completion', `{"prompt": "q", "n_predict": 2, "seed": ${text}}`);
    expect(numberText(at(parseJson(completion.text), 'generation_settings', 'seed') as number)).toBe(text);
    const streamed = await post('/completion', `{"prompt": "q", "n_predict": 2, "seed": ${text}, "stream": true}`);
    expect(numberText(at(eventsOf(streamed.text).at(-1), 'generation_settings', 'seed') as number)).toBe(text);
    for (const written of [text, `"${text}"`]) {
      const connect = await post(
        GENERATE,
        `{"text": {"text": "q"}, "sampling": {"seed": ${written}}, "stop": {"maxTokens": 2}}`,
      );
      expect(at(parseJson(connect.text), 'completions', 0, 'seed') ?? '0').toBe(text);
    }
    const { complete } = await generate(
      server.client,
      request({ text: 'q', sampling: { seed: BigInt(text) }, stop: { maxTokens: 2 } }),
    );
    expect(complete?.seed).toBe(BigInt(text));
  });

  it('that was drawn is one that a reader of doubles sends back', async () => {
    for (let i = 0; i < 20; i++) {
      const { text } = await post('/completion', '{"prompt": "q", "n_predict": 1}');
      expect(Number.isSafeInteger(at(parseJson(text), 'generation_settings', 'seed'))).toBe(true);
    }
  });

  it.each(['18446744073709551616', '-9223372036854775809', '1.5', '1e40'])('%s is refused by name', async (text) => {
    const answer = await post('/v1/chat/completions', `{"messages": ${JSON.stringify(messages)}, "seed": ${text}}`);
    expect([answer.status, answer.json.error.param]).toEqual([400, 'seed']);
  });
});

describe('malformed input', () => {
  const nested = (depth: number, opening: string, closing: string) =>
    `${opening.repeat(depth)}${closing.repeat(depth)}`;
  const DEEP = [8_000, 100_000].flatMap((depth) => [
    nested(depth, '[', ']'),
    `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
  ]);
  const bodies = (deep: string): readonly (readonly [string, string, string])[] => [
    ['/v1/chat/completions', 'chat_template_kwargs', `{"chat_template_kwargs": {"a": ${deep}}, "messages": []}`],
    [
      '/v1/chat/completions',
      'tools',
      `{"tools": [{"type": "function", "function": {"name": "f", "parameters": ${deep}}}]}`,
    ],
    ['/v1/chat/completions', 'response_format', `{"response_format": {"type": "json_object", "schema": ${deep}}}`],
    ['/v1/messages', 'tools', `{"tools": [{"name": "f", "input_schema": ${deep}}]}`],
    ['/completion', 'json_schema', `{"json_schema": ${deep}}`],
    ['/apply-template', 'messages', `{"messages": ${deep}}`],
  ];

  it.each(DEEP.map((deep) => [deep.slice(0, 6), deep.length, deep] as const))(
    'nested too deep is 400 by the field, never INTERNAL (%s…, %i characters)',
    async (_shown, _length, deep) => {
      for (const [path, field, body] of bodies(deep)) {
        const { status, json } = await post(path, body);
        expect([path, status, json.error.param, json.error.message]).toEqual([
          path,
          400,
          field,
          expect.stringContaining('deeper than 256 levels'),
        ]);
      }
    },
  );

  it('nested too deep in a text of JSON is refused by the field over gRPC and Connect', async () => {
    const deep = nested(20_000, '[', ']');
    const chat = (fields: object) => ({
      $case: 'chat' as const,
      value: {
        messages: [ChatMessage.fromPartial({ role: 'user', content: 'q' })],
        ...{ tools: [], toolChoice: undefined, parallelToolCalls: undefined, addGenerationPrompt: undefined },
        ...{ continueFinalMessage: false, templateVariablesJson: '', ...fields },
      },
    });
    const tool = { name: 'f', description: '', parametersJson: deep, strict: false };
    for (const message of [
      request({ constraint: { kind: { $case: 'jsonSchema', value: deep } } }),
      request({ constraint: { kind: { $case: 'jsonSchema', value: `{"const": ${deep}}` } } }),
      request({ input: chat({ templateVariablesJson: `{"a": ${deep}}` }) }),
      request({ input: chat({ tools: [tool] }) }),
    ]) {
      await expect(generate(server.client, message)).rejects.toMatchObject({
        code: expect.toSatisfy((code) => code === 3 || code === 12),
      });
    }
    const connect = await post(GENERATE, `{"chat": {"messages": ${nested(8000, '[', ']')}}}`);
    expect([connect.status, connect.json.code]).toEqual([400, 'invalid_argument']);
    expect(connect.json.details[0].debug).toMatchObject({ reason: 'MALFORMED_MESSAGE' });
  });

  const garbage = Uint8Array.from([0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1, 2]);
  const envelope = (bytes: Uint8Array, flags = 0) => {
    const framed = new Uint8Array(5 + bytes.length);
    framed[0] = flags;
    new DataView(framed.buffer).setUint32(1, bytes.length);
    framed.set(bytes, 5);
    return framed;
  };

  it.each<[string, string, Uint8Array, Record<string, string>]>([
    ['a call of Connect', GENERATE, garbage, { 'content-type': 'application/proto' }],
    [
      'a compressed call of Connect',
      GENERATE,
      gzipSync(garbage),
      { 'content-type': 'application/proto', 'content-encoding': 'gzip' },
    ],
    ['a stream of Connect', STREAM, envelope(garbage), { 'content-type': 'application/connect+proto' }],
    [
      'a compressed stream of Connect',
      STREAM,
      envelope(gzipSync(garbage), 1),
      { 'content-type': 'application/connect+proto', 'connect-content-encoding': 'gzip' },
    ],
    ['gRPC-Web', GENERATE, envelope(garbage), { 'content-type': 'application/grpc-web+proto' }],
  ])('bytes that are not a message are the client’s error: %s', async (_what, path, body, headers) => {
    const answer = await post(path, body, headers);
    const code = /grpc-status: *(\d+)/.exec(answer.text)?.[1] ?? /"code":"(\w+)"/.exec(answer.text)?.[1];
    expect(code).toBe(headers['content-type']?.includes('grpc-web') ? '3' : 'invalid_argument');
    expect(decodeURIComponent(answer.text)).toContain('is not a rocmforge.v1.Generate');
  });

  it('a message in the binary format still arrives, compressed or not', async () => {
    const input = apiRegistry().getMessage('rocmforge.v1.GenerateRequest') as DescMessage;
    const bytes = toBinary(
      input,
      create(input, { input: { case: 'text', value: { text: 'q' } }, stop: { maxTokens: 1 } }),
    );
    for (const [body, encoding] of [
      [bytes, 'identity'],
      [gzipSync(bytes), 'gzip'],
    ] as const) {
      const answer = await post(GENERATE, body, { 'content-type': 'application/proto', 'content-encoding': encoding });
      expect(answer.status).toBe(200);
    }
  });
});
