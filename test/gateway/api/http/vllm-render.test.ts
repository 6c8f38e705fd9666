import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask } from '../../../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}' +
  '{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{% endfor %}{# </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京"}}\n</tool_call>';
const OPTIONS = { modelName: 'demo', httpListen: '127.0.0.1:0', model: { chatTemplate: TEMPLATE } };

let server: FakeGateway;
beforeAll(async () => {
  server = await startFakeGateway({ script: spelled(ANSWER), ...OPTIONS });
});
afterAll(() => server.stop());

const post = (path: string, body: object) => ask(server.gateway, path, body);
const RENDER = '/v1/chat/completions/render';
const DERENDER = '/v1/chat/completions/derender';
const messages = [{ role: 'user', content: 'the weather' }];
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];

/** The tokens of an engine for a rendered request, as vLLM's `/inference/v1/generate` returns them. */
async function generated(request: {
  token_ids: number[];
  request_id: string;
  sampling_params: { max_tokens: number };
}) {
  const { json } = await post('/completion', {
    ...{
      prompt: request.token_ids,
      n_predict: request.sampling_params.max_tokens,
      temperature: 0,
      return_tokens: true,
    },
  });
  const { tokens, stop_type } = json;
  const finish_reason = stop_type === 'limit' ? 'length' : 'stop';
  return {
    request_id: request.request_id,
    output_mode: 'tokens',
    choices: [{ index: 0, token_ids: tokens, finish_reason }],
  };
}

describe('vLLM’s render', () => {
  it('of a chat is the prompt’s tokens and the parameters that run', async () => {
    const body = {
      ...{ model: 'demo', messages, max_tokens: 5, temperature: 0.5, top_p: 0.25, seed: 7, stop: ['x'], n: 2 },
      ...{ logit_bias: { 9: -1 }, priority: 3, stream: true, stream_options: { include_usage: true } },
      response_format: { type: 'json_schema', json_schema: { schema: { type: 'number', maximum: 0.1 } } },
    };
    const { status, json } = await ask(
      server.gateway,
      RENDER,
      JSON.stringify(body).replace('0.1', '0.10000000000000000000001'),
    );
    expect([status, json.error]).toEqual([200, undefined]);
    const { json: tokenized } = await post('/tokenize', { messages });
    expect(json).toMatchObject({
      request_id: expect.stringMatching(/^chatcmpl-/),
      token_ids: tokenized.tokens,
      ...{ token_offsets: null, features: null, model: 'demo', priority: 3 },
      ...{ stream: true, stream_options: { include_usage: true } },
      sampling_params: {
        ...{ n: 2, temperature: 0.5, top_p: 0.25, seed: 7, stop: ['x'], max_tokens: 5, logit_bias: { 9: -1 } },
        structured_outputs: { json: '{"type":"number","maximum":0.10000000000000000000001}' },
      },
    });
  });

  it('of completions is a list, with what fits as the limit', async () => {
    const { json } = await post('/v1/completions/render', { prompt: ['ab', [4, 5, 6]], max_tokens: -1 });
    const { json: tokenized } = await post('/tokenize', { prompt: 'ab' });
    expect(json.map(({ token_ids }: { token_ids: number[] }) => token_ids)).toEqual([tokenized.tokens, [4, 5, 6]]);
    expect(json[1].sampling_params.max_tokens).toBe(4096 - 3);
    expect(new Set(json.map(({ request_id }: { request_id: string }) => request_id)).size).toBe(2);
  });

  it.each<[string, string, object, string]>([
    ['what is to be constrained to a call', RENDER, { messages, tools, tool_choice: 'required' }, 'tool_choice'],
    ['typical_p', RENDER, { messages, typical_p: 0.5 }, 'typical_p'],
    ['echo', '/v1/completions/render', { prompt: 'a', echo: true }, 'echo'],
    ['a prompt that is too long', RENDER, { messages: [{ role: 'user', content: 'a'.repeat(9000) }] }, 'messages'],
    ['another model', RENDER, { model: 'x', messages }, 'model'],
  ])('refuses %s by name', async (_what, path, body, param) => {
    const { status, json } = await post(path, body);
    expect([status >= 400 && status < 500, json.error.param]).toEqual([true, param]);
  });
});

describe('vLLM’s derender', () => {
  it.each([{ messages, tools }, { messages }, { messages, tools, max_tokens: 40 }, { messages, stop: ['look'] }])(
    'of a rendered chat’s tokens is the response to the chat: %j',
    async (body) => {
      const { json: direct } = await post('/v1/chat/completions', { ...body, temperature: 0 });
      const { json: request } = await post(RENDER, body);
      const generate_response = await generated(request);
      const { status, json } = await post(DERENDER, {
        ...{ model: 'demo', generate_response, prompt_tokens: request.token_ids.length, chat_request: body },
        prompt_token_ids: request.token_ids,
      });
      expect(status).toBe(200);
      const withoutIds = (message: { tool_calls?: { id: string }[] }) => ({
        ...message,
        tool_calls: message.tool_calls?.map((call) => ({ ...call, id: '' })),
      });
      expect(withoutIds(json.choices[0].message)).toEqual(withoutIds(direct.choices[0].message));
      expect(json.choices[0].finish_reason).toBe(direct.choices[0].finish_reason);
      expect(json.usage.prompt_tokens).toBe(direct.usage.prompt_tokens);
      expect(json.id).toBe(request.request_id);
    },
  );

  it('of completions is their texts, with log probabilities by tokens’ texts', async () => {
    const ids = spelled('hé');
    const content = ids.slice(0, 1).map((token_id) => ({ token_id, logprob: -0.5, rank: 1, top_logprobs: [] }));
    const { status, json } = await post('/v1/completions/derender', {
      generate_responses: [
        { request_id: 'cmpl-1', choices: [{ index: 0, token_ids: ids, logprobs: { content } }] },
        { request_id: 'cmpl-2', choices: [{ index: 0, token_ids: ids.slice(0, 1), finish_reason: 'length' }] },
      ],
      prompt_tokens: [2, 3],
    });
    expect(status).toBe(200);
    expect(
      json.choices.map(({ index, text, finish_reason }: Record<string, unknown>) => [index, text, finish_reason]),
    ).toEqual([
      [0, 'hé', 'stop'],
      [1, 'h', 'length'],
    ]);
    expect(json.choices[0].logprobs).toMatchObject({ tokens: ['h'], token_logprobs: [-0.5], text_offset: [0] });
    expect(json.usage).toEqual({ prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 });
  });

  it.each<[object, string]>([
    [{ stream: true, generate_chunk: {} }, 'stream'],
    [{}, 'generate_response'],
    [{ generate_response: { choices: [{ token_ids: [1e6] }] } }, 'generate_response.choices[0].token_ids'],
    [{ generate_response: { choices: [] }, chat_request: { messages, top_p: 3 } }, 'chat_request.top_p'],
    [{ generate_response: { choices: [{ token_ids: 'x' }] } }, 'generate_response.choices[0].token_ids'],
    [{ generate_response: { output_mode: 'text', choices: [] } }, 'generate_response.output_mode'],
  ])('refuses %j by name', async (body, param) => {
    const { status, json } = await post(DERENDER, body);
    expect([status, json.error.param]).toEqual([400, param]);
  });
});
