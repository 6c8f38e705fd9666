import Anthropic, { BadRequestError, NotFoundError } from '@anthropic-ai/sdk';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, baseOf } from '../../../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}' +
  '{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{{ m.tool_call_id }}\n{% endfor %}' +
  '{% if enable_thinking is defined %}thinks: {{ enable_thinking }}{% endif %}{# </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京"}}\n</tool_call>\n<tool_call>\n{"name": "clock"}\n</tool_call>';
const messages = [{ role: 'user' as const, content: 'the weather' }];
const tools = ['weather', 'clock'].map((name) => ({ name, input_schema: { type: 'object' as const } }));
const asked = { model: 'demo', max_tokens: 200, messages };
/** Its newest types know no temperature; its API does. */
const greedy = { ...asked, max_tokens: 24, temperature: 0 };

let server: FakeGateway;
let demo: TestGateway;
let scripted: Anthropic;
let anthropic: Anthropic;
beforeAll(async () => {
  const options = { modelName: 'demo', httpListen: '127.0.0.1:0' };
  server = await startFakeGateway({ script: spelled(ANSWER), model: { chatTemplate: TEMPLATE }, ...options });
  demo = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
  const clientOf = (gateway: TestGateway['gateway']) =>
    new Anthropic({ baseURL: baseOf(gateway), apiKey: 'none', maxRetries: 0 });
  scripted = clientOf(server.gateway);
  anthropic = clientOf(demo.gateway);
});
afterAll(async () => {
  await server.stop();
  await demo.stop();
});

const CALLS = [
  { type: 'thinking', thinking: 'Hm.' },
  { type: 'text', text: 'I look.' },
  { type: 'tool_use', name: 'weather', input: { place: '東京' } },
  { type: 'tool_use', name: 'clock', input: {} },
];

describe('Anthropic’s client', () => {
  it('gets what the model thinks, says and calls', async () => {
    const answer = await scripted.messages.create({ ...asked, tools });
    expect(answer).toMatchObject({ type: 'message', role: 'assistant', model: 'demo', stop_reason: 'tool_use' });
    expect(answer.content).toMatchObject(CALLS);
    expect(answer.content.map((block) => 'id' in block && block.id)).not.toContain('');
  });

  it('puts the same together from a stream, block by block', async () => {
    const stream = scripted.messages.stream({ ...asked, tools });
    const starts: number[] = [];
    const stops: number[] = [];
    stream.on('streamEvent', (event) => {
      if (event.type === 'content_block_start') starts.push(event.index);
      if (event.type === 'content_block_stop') stops.push(event.index);
    });
    const answer = await stream.finalMessage();
    expect(answer.content).toMatchObject(CALLS);
    expect(answer.stop_reason).toBe('tool_use');
    expect([starts, stops]).toEqual([
      [0, 1, 2, 3],
      [0, 1, 2, 3],
    ]);
  });

  it('gets the text of OpenAI’s chat, whole and streamed, with the same counts', async () => {
    const chat = { model: 'demo', messages, max_tokens: 24, temperature: 0 };
    const { json } = await ask(demo.gateway, '/v1/chat/completions', JSON.stringify(chat));
    const expected = [{ type: 'text', text: json.choices[0].message.content }];
    const whole = await anthropic.messages.create(greedy);
    expect(whole.content).toEqual(expected);
    expect(whole.stop_reason).toBe('max_tokens');
    expect(whole.usage.output_tokens).toBe(24);
    const { input_tokens: computed, cache_read_input_tokens: cached } = whole.usage;
    expect(computed + (cached ?? 0)).toBe(json.usage.prompt_tokens);
    const streamed = anthropic.messages.stream(greedy);
    let told = 0;
    streamed.on('streamEvent', (event) => {
      if (event.type === 'message_start') told = event.message.usage.input_tokens;
    });
    expect((await streamed.finalMessage()).content).toEqual(expected);
    expect(told).toBe(json.usage.prompt_tokens);
    const count = await anthropic.messages.countTokens({ model: 'demo', messages });
    expect(count.input_tokens).toBe(json.usage.prompt_tokens);
  });

  it('ends at a stop sequence, and is told which', async () => {
    const chat = await anthropic.messages.create(greedy);
    const text = chat.content[0]?.type === 'text' ? chat.content[0].text : '';
    const stop = text.slice(6, 9);
    const cut = await anthropic.messages.create({
      ...{ ...greedy, stop_sequences: [stop] },
    });
    expect(cut).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: stop });
    expect(cut.content).toEqual([{ type: 'text', text: text.slice(0, text.indexOf(stop)) }]);
  });

  it('is refused in its own errors', async () => {
    const wrong = anthropic.messages.create({ ...asked, ...{ top_p: 2 } });
    await expect(wrong).rejects.toBeInstanceOf(BadRequestError);
    await expect(wrong).rejects.toMatchObject({
      error: { type: 'error', error: { type: 'invalid_request_error', param: 'top_p' } },
    });
    const other = anthropic.messages.create({ ...asked, model: 'claude' });
    await expect(other).rejects.toBeInstanceOf(NotFoundError);
    const streamed = anthropic.messages.create({ ...asked, model: 'claude', stream: true });
    await expect(streamed).rejects.toBeInstanceOf(NotFoundError);
  });
});

describe('a request of Anthropic’s form', () => {
  const count = async (body: object) => {
    const { status, json } = await ask(server.gateway, '/v1/messages/count_tokens', JSON.stringify(body));
    expect([status, json]).toEqual([200, { input_tokens: expect.any(Number) }]);
    return json.input_tokens as number;
  };
  const tokensOf = async (prompt: string) => {
    const body = JSON.stringify({ content: prompt, add_special: true });
    return (await ask(server.gateway, '/tokenize', body)).json.tokens.length as number;
  };

  it('becomes the turns that a template knows: a system’s, calls, their results before what is said beside', async () => {
    const use = { type: 'tool_use', id: 'a', name: 'clock', input: { zone: 'UTC' } };
    const result = {
      type: 'tool_result',
      tool_use_id: 'a',
      content: [{ type: 'text', text: 'noon' }],
      is_error: false,
    };
    const body = {
      system: [
        { type: 'text', text: 'Be ' },
        { type: 'text', text: 'brief.', cache_control: { type: 'ephemeral' } },
      ],
      messages: [
        ...messages,
        { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.', signature: 's' }, use] },
        { role: 'user', content: [{ type: 'text', text: 'here' }, result] },
      ],
      thinking: { type: 'disabled' },
    };
    const prompt =
      'system: Be brief.\nuser: the weather\nassistant: Hm.<tool_call>{"name": "clock", "arguments": {"zone": "UTC"}}\n' +
      'tool: noona\nuser: here\nthinks: False';
    expect(await count(body)).toBe(await tokensOf(prompt));
  });

  it.each([
    [{ max_tokens: undefined }, 'max_tokens'],
    [{ n: 2 }, 'n'],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user', content: [{ type: 'image', source: {} }] }] }, 'messages[0].content[0].type'],
    [
      { messages: [{ role: 'user', content: [{ type: 'tool_use', id: 'a', name: 'f', input: {} }] }] },
      'messages[0].content[0].type',
    ],
    [
      { messages: [{ role: 'user', content: [{ type: 'tool_result', content: 'x' }] }] },
      'messages[0].content[0].tool_use_id',
    ],
    [{ messages: [] }, 'messages'],
    [{ thinking: { type: 'enabled', budget_tokens: 'many' } }, 'thinking.budget_tokens'],
    [{ output_config: { format: {} } }, 'output_config.format.type'],
    [{ thinking: { type: 'maybe' } }, 'thinking.type'],
    [{ tools: [{ type: 'bash_20250124', name: 'bash' }] }, 'tools[0].type'],
    [{ tools, tool_choice: { type: 'some' } }, 'tool_choice.type'],
    [{ tools, tool_choice: { type: '__proto__' } }, 'tool_choice.type'],
    [{ stop_sequences: 'x' }, 'stop_sequences'],
    [{ stop_sequences: Array.from({ length: 1000 }, (_, i) => `${i}`) }, 'stop_sequences'],
    [{ mcp_servers: [{}] }, 'mcp_servers'],
    [{ output_config: { effort: 'extreme' } }, 'output_config.effort'],
  ])('is refused %j by name', async (parts, param) => {
    const { status, json } = await ask(server.gateway, '/v1/messages', JSON.stringify({ ...asked, ...parts }));
    expect([status, json.type, json.error.type, json.error.param]).toEqual([
      ...[400, 'error', 'invalid_request_error', param],
    ]);
  });
});
