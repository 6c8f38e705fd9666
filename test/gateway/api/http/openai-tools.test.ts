import OpenAI from 'openai';
import type { ChatCompletionMessageFunctionToolCall, ChatCompletionMessageParam } from 'openai/resources';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { baseOf } from '../../../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}' +
  '{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}{% endfor %}{% endfor %}{# </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京"}}\n</tool_call>\n<tool_call>\n{"name": "clock"}\n</tool_call>';
const messages = [{ role: 'user' as const, content: 'the weather' }];
const tools = ['weather', 'clock'].map((name) => ({ type: 'function' as const, function: { name, parameters: {} } }));

let server: FakeGateway;
let openai: OpenAI;
beforeAll(async () => {
  server = await startFakeGateway({
    script: spelled(ANSWER),
    model: { chatTemplate: TEMPLATE },
    modelName: 'demo',
    httpListen: '127.0.0.1:0',
  });
  openai = new OpenAI({ baseURL: `${baseOf(server.gateway)}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => server.stop());

describe('OpenAI’s client', () => {
  it('gets calls whole', async () => {
    const { choices } = await openai.chat.completions.create({ model: 'demo', messages, tools });
    expect(choices[0]).toMatchObject({
      finish_reason: 'tool_calls',
      message: {
        content: 'I look.',
        reasoning_content: 'Hm.',
        tool_calls: [
          { type: 'function', function: { name: 'weather', arguments: '{"place": "東京"}' } },
          { type: 'function', function: { name: 'clock', arguments: '{}' } },
        ],
      },
    });
  });

  it('puts streamed calls together itself', async () => {
    const runner = openai.chat.completions.stream({ model: 'demo', messages, tools });
    let reasoning = '';
    runner.on('chunk', ({ choices }) => {
      reasoning += (choices[0]?.delta as { reasoning_content?: string } | undefined)?.reasoning_content ?? '';
    });
    const { choices } = await runner.finalChatCompletion();
    const { message, finish_reason } = choices[0]!;
    const calls = message.tool_calls as ChatCompletionMessageFunctionToolCall[];
    expect(finish_reason).toBe('tool_calls');
    expect(message.content).toBe('I look.');
    expect(reasoning).toBe('Hm.');
    expect(calls.map(({ function: { name, arguments: json } }) => [name, json])).toEqual([
      ['weather', '{"place": "東京"}'],
      ['clock', '{}'],
    ]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
  });

  it('gets one call where it wants no more', async () => {
    const { choices } = await openai.chat.completions.create({
      model: 'demo',
      messages,
      tools,
      parallel_tool_calls: false,
    });
    expect(choices[0]?.message.tool_calls).toHaveLength(1);
    expect(choices[0]?.finish_reason).toBe('tool_calls');
  });

  it('gets text where it wants no calls, behind the same prompt', async () => {
    const count = async (more: object) =>
      (await openai.chat.completions.create({ model: 'demo', messages, ...more })).usage?.prompt_tokens;
    const { choices } = await openai.chat.completions.create({ model: 'demo', messages, tools, tool_choice: 'none' });
    expect(choices[0]?.message.tool_calls).toBeUndefined();
    expect(choices[0]?.message.content).toContain('<tool_call>');
    expect(choices[0]?.finish_reason).toBe('stop');
    expect(await count({ tools, tool_choice: 'none' })).toBe(await count({ tools }));
    expect(await count({ tools })).toBeGreaterThan((await count({})) as number);
  });

  it('gets log probabilities of all tokens, those of markup, too', async () => {
    const { choices, usage } = await openai.chat.completions.create({ model: 'demo', messages, tools, logprobs: true });
    expect(choices[0]?.logprobs?.content).toHaveLength(usage?.completion_tokens as number);
  });

  it('sends calls, their answers and its reasoning back', async () => {
    const turns = [
      ...messages,
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'Hm.',
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'clock', arguments: '{"a": 1}' } }],
      },
      { role: 'tool', tool_call_id: 'a', content: 'noon' },
    ];
    const answer = await fetch(`${baseOf(server.gateway)}/apply-template`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ messages: turns }),
    });
    expect(((await answer.json()) as { prompt: string }).prompt).toContain(
      'assistant: Hm.<tool_call>{"name": "clock", "arguments": {"a": 1}}tool: noon',
    );
    const { choices } = await openai.chat.completions.create({
      model: 'demo',
      messages: turns as ChatCompletionMessageParam[],
      tools,
    });
    expect(choices[0]?.message.tool_calls).toHaveLength(2);
  });

  it.each([
    [{ tool_choice: 'always' }, 'tool_choice'],
    [{ tool_choice: { type: 'function', function: { name: 'other' } } }, 'tool_choice'],
    [{ tool_choice: { type: 'custom', custom: { name: 'clock' } } }, 'tool_choice.type'],
    [{ tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'objekt' }, strict: true } }] }, 'tools'],
    [{ tools: [{ type: 'custom', custom: { name: 'f' } }] }, 'tools[0].type'],
    [{ tools: [], tool_choice: 'required' }, 'tool_choice'],
  ])('is refused %j by name', async (parts, param) => {
    const call = openai.chat.completions.create({ model: 'demo', messages, tools, ...(parts as object) });
    await expect(call).rejects.toMatchObject({ status: 400, param });
  });
});
