import OpenAI, { APIError } from 'openai';
import type { ResponseInput, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RocmForgeError } from '../../../../src/shared/errors.js';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { ask, baseOf } from '../../../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}' +
  '{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{{ m.tool_call_id }}\n{% endfor %}' +
  '{% if enable_thinking is defined %}thinks: {{ enable_thinking }}{% endif %}{# </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京"}}\n</tool_call>\n<tool_call>\n{"name": "note", "arguments": {"input": "a \\"b\\""}}\n</tool_call>';
const tools = [
  { type: 'function' as const, name: 'weather', parameters: { type: 'object' }, strict: false },
  { type: 'custom' as const, name: 'note' },
];
const base = { model: 'm', tools, max_output_tokens: 300 };

let server: FakeGateway;
let openai: OpenAI;
beforeAll(async () => {
  const options = { modelName: 'm', httpListen: '127.0.0.1:0', httpVerbose: true };
  server = await startFakeGateway({ script: spelled(ANSWER), model: { chatTemplate: TEMPLATE }, ...options });
  openai = new OpenAI({ baseURL: `${baseOf(server.gateway)}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => server.stop());

const OUTPUT = [
  { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] },
  { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'I look.' }] },
  { type: 'function_call', name: 'weather', arguments: '{"place": "東京"}', status: 'completed' },
  { type: 'custom_tool_call', name: 'note', input: 'a "b"' },
];

/** The prompt of a request as the template renders it, by the turns of llama.cpp's `/apply-template`. */
const turnsOf = async (body: object): Promise<readonly string[]> => {
  const { json } = await ask(server.gateway, '/v1/responses', { ...base, ...body });
  expect(json.error).toBeNull();
  return json.output.map(({ type }: { type: string }) => type);
};

const eventsOf = async (body: object): Promise<ResponseStreamEvent[]> => {
  const events: ResponseStreamEvent[] = [];
  const stream = await openai.responses.create({ ...base, ...body, input: 'q', stream: true });
  for await (const event of stream) events.push(event);
  return events;
};

describe('a response', () => {
  it('has what the model thinks, says and calls, and repeats the request', async () => {
    const response = await openai.responses.create({
      ...base,
      input: 'q',
      metadata: { a: 'b' },
      instructions: 'Be brief.',
    });
    expect(response).toMatchObject({
      ...{ object: 'response', status: 'completed', error: null, model: 'm', metadata: { a: 'b' } },
      ...{ instructions: 'Be brief.', tools, tool_choice: 'auto', incomplete_details: null, output: OUTPUT },
    });
    expect(response.output_text).toBe('I look.');
    const { usage } = response;
    expect(usage?.total_tokens).toBe((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0));
    expect(usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0);
  });

  it('that fails in the middle of its stream says why, by the names of the API', async () => {
    const events: ResponseStreamEvent[] = [];
    const body = { ...base, input: 'q', max_output_tokens: 4000, ignore_eos: true };
    for await (const event of await openai.responses.create({ ...body, stream: true })) {
      events.push(event);
      if (events.length > 1) continue;
      const field = 'stop.max_tokens';
      const what = 'stop.max_tokens is more than there is time for';
      server.gateway.replica.endAll(new RocmForgeError('CONSTRAINT_UNSUPPORTED', what, { field }));
    }
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: {
        status: 'failed',
        error: {
          ...{ code: 'server_error', reason: 'CONSTRAINT_UNSUPPORTED', param: 'max_output_tokens' },
          message: 'max_output_tokens is more than there is time for',
        },
      },
    });
  });

  it('comes as the same from a stream, whose events are numbered and each item’s in order', async () => {
    const events = await eventsOf({});
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
    const types = events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);
    const message = ['content_part.added', 'output_text.delta', 'output_text.done', 'content_part.done'];
    const thought = ['content_part.added', 'reasoning_text.delta', 'reasoning_text.done', 'content_part.done'];
    const call = ['function_call_arguments.delta', 'function_call_arguments.done'];
    const custom = ['custom_tool_call_input.delta', 'custom_tool_call_input.done'];
    const items = [thought, message, call, custom].flatMap((one) => ['output_item.added', ...one, 'output_item.done']);
    expect(types).toEqual(['created', 'in_progress', ...items, 'completed'].map((type) => `response.${type}`));
    const last = events.at(-1)!;
    expect(last).toMatchObject({ response: { status: 'completed', output: OUTPUT } });
    const text = events.map((event) => (event.type === 'response.output_text.delta' ? event.delta : '')).join('');
    expect(text).toBe('I look.');
  });

  it('has its reasoning as a summary for who asks for one, and encrypted for who includes it', async () => {
    const events = await eventsOf({ reasoning: { summary: 'auto' }, include: ['reasoning.encrypted_content'] });
    expect(events.map(({ type }) => type)).toContain('response.reasoning_summary_text.delta');
    const last = events.at(-1) as Extract<ResponseStreamEvent, { type: 'response.completed' }>;
    const [reasoning] = last.response.output;
    expect(reasoning).toMatchObject({ type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] });
    const input = [
      { role: 'user', content: 'q' },
      { ...reasoning, summary: [] },
    ] as ResponseInput;
    const before = await openai.responses.create({ ...base, store: false, input: 'q' });
    const after = await openai.responses.create({ ...base, store: false, input });
    expect(after.usage!.input_tokens).toBeGreaterThan(before.usage!.input_tokens + 'Hm.'.length);
  });

  it('has llama.cpp’s times and progress where it is asked to', async () => {
    const body = { ...base, input: 'q', stream: true, timings_per_token: true, return_progress: true };
    const told = (await ask(server.gateway, '/v1/responses', body)).text
      .split('\n')
      .flatMap((line) => (line.startsWith('data: ') ? [JSON.parse(line.slice('data: '.length))] : []));
    const progress = told.filter(({ prompt_progress }) => prompt_progress !== undefined);
    expect(progress.length).toBeGreaterThan(0);
    expect(progress.every(({ type }) => type === 'response.in_progress')).toBe(true);
    expect(progress.at(-1).prompt_progress.processed).toBe(progress.at(-1).prompt_progress.total);
    const deltas = told.filter(({ type }) => type === 'response.output_text.delta');
    const counts = deltas.map(({ timings }) => timings.predicted_n);
    expect(counts[0]).toBeGreaterThan(0);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    const { response, timings } = told.at(-1);
    expect(timings.predicted_n).toBe(response.usage.output_tokens);
    const plain = await eventsOf({});
    expect(plain.some((event) => event.type === 'response.output_text.delta' && 'timings' in event)).toBe(false);
    expect(plain.some((event) => 'prompt_progress' in event)).toBe(false);
  });

  it('that is cut is incomplete', async () => {
    const response = await openai.responses.create({ ...base, input: 'q', max_output_tokens: 20 });
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
    expect((await eventsOf({ max_output_tokens: 20 })).at(-1)!.type).toBe('response.incomplete');
  });
});

describe('a conversation', () => {
  const tokensOf = async (body: object): Promise<number> =>
    (await ask(server.gateway, '/v1/responses', { ...base, store: false, ...body })).json.usage.input_tokens;

  it('is the same by its items, by references and by the response before', async () => {
    const first = await openai.responses.create({ ...base, input: 'q' });
    const outputs = first.output.flatMap((item) =>
      item.type === 'function_call' || item.type === 'custom_tool_call'
        ? [{ type: `${item.type}_output`, call_id: item.call_id, output: 'sunny' }]
        : [],
    );
    expect(outputs).toHaveLength(2);
    const question = { role: 'user', content: 'q' };
    const bare = await tokensOf({ input: [question] });
    const whole = await tokensOf({ input: [question, ...first.output, ...outputs] });
    const references = first.output.map(({ id }) => ({ type: 'item_reference', id }));
    expect(whole).toBeGreaterThan(bare + 'I look.sunnysunny'.length);
    expect(await tokensOf({ input: [question, ...references, ...outputs] })).toBe(whole);
    expect(await tokensOf({ input: outputs, previous_response_id: first.id })).toBe(whole);
    const large = [{ role: 'user', content: 'x'.repeat(1000) }, ...outputs];
    expect(await tokensOf({ input: large, previous_response_id: first.id })).toBe(whole + 1000 + 'user: \n'.length);
  });

  it('reads parts as lines and keeps instructions out of what is stored', async () => {
    const parts = [
      { type: 'input_text', text: 'a' },
      { type: 'input_text', text: 'b' },
    ];
    expect(await tokensOf({ input: [{ role: 'user', content: parts }] })).toBe(await tokensOf({ input: 'a\nb' }));
    const first = await openai.responses.create({ ...base, input: 'q', instructions: 'i'.repeat(100) });
    const second = await tokensOf({ input: 'q', previous_response_id: first.id });
    expect(second).toBeLessThan(first.usage!.input_tokens + 200);
    expect(await turnsOf({ input: 'q' })).toEqual(OUTPUT.map(({ type }) => type));
  });

  it.each<[object, number, string]>([
    [{ input: 'q', previous_response_id: 'resp_none' }, 404, 'previous_response_id'],
    [{ input: [{ type: 'item_reference', id: 'msg_none_0' }] }, 404, 'input'],
    [{ input: [{ type: 'web_search_call', id: 'x' }] }, 400, 'input[0].type'],
    [
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
      400,
      'input[0].content[0].type',
    ],
    [{ input: 'q', background: true }, 400, 'background'],
    [{ input: 'q', conversation: 'c' }, 400, 'conversation'],
    [{ input: 'q', include: ['message.output_text.logprobs'] }, 400, 'include'],
    [
      { input: 'q', tools: [{ type: 'custom', name: 'a', format: { type: 'grammar', syntax: 'lark' } }] },
      400,
      'tools[0].format.syntax',
    ],
    [{ input: 'q', tool_choice: { type: 'web_search' } }, 400, 'tool_choice.type'],
  ])('is refused by name: %j', async (body, status, param) => {
    const answer = await ask(server.gateway, '/v1/responses', { ...base, ...body });
    expect([answer.status, answer.json.error.param]).toEqual([status, param]);
  });

  it('may be offered the tools of OpenAI’s servers, which are reported', async () => {
    const { headers, json } = await ask(server.gateway, '/v1/responses', {
      ...base,
      input: 'q',
      tools: [...tools, { type: 'web_search' }, { type: 'namespace', name: 'n', tools: [] }],
    });
    expect(headers.get('x-rocmforge-ignored-fields')).toContain('tools[].type');
    expect(json.status).toBe('completed');
  });

  it('calls none but the allowed tools', async () => {
    const allowed = {
      type: 'allowed_tools' as const,
      mode: 'auto' as const,
      tools: [{ type: 'function', name: 'weather' }],
    };
    const alone = await tokensOf({ input: 'q', tools: [tools[0]] });
    expect(await tokensOf({ input: 'q', tool_choice: allowed })).toBe(alone);
  });
});

describe('a stored response', () => {
  it('is there until it is deleted, unless it was not to be stored', async () => {
    const stored = await openai.responses.create({ ...base, input: 'q' });
    expect(await openai.responses.retrieve(stored.id)).toMatchObject({ id: stored.id, output: OUTPUT });
    await openai.responses.delete(stored.id);
    await expect(openai.responses.retrieve(stored.id)).rejects.toBeInstanceOf(APIError);
    const unstored = await openai.responses.create({ ...base, input: 'q', store: false });
    await expect(openai.responses.retrieve(unstored.id)).rejects.toMatchObject({ status: 404 });
  });

  it('of a stream is there, too', async () => {
    const last = (await eventsOf({})).at(-1) as Extract<ResponseStreamEvent, { type: 'response.completed' }>;
    const { output_text, ...stored } = await openai.responses.retrieve(last.response.id);
    expect(stored).toMatchObject({ ...last.response });
    expect(output_text).toBe('I look.');
  });
});
