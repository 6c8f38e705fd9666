import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type FakeGateway, spelled, startFakeGateway } from '../../../support/fake-gateway.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, baseOf } from '../../../support/http.js';

const TEMPLATE =
  '{% for tool in tools or [] %}{{ tool | tojson }}{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}' +
  '{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>{{ c | tojson }}{% endfor %}{{ m.tool_call_id }}\n{% endfor %}' +
  '{% if enable_thinking is defined %}thinks: {{ enable_thinking }}{% endif %}{# </think> #}';
const ANSWER =
  '<think>Hm.</think>I look.\n<tool_call>\n{"name": "weather", "arguments": {"place": "東京", "id": 12345678901234567890}}\n</tool_call>\n' +
  '<tool_call>\n{"name": "clock"}\n</tool_call>';
const messages = [{ role: 'user', content: 'the weather' }];
const tools = ['weather', 'clock'].map((name) => ({
  type: 'function',
  function: { name, description: '', parameters: { type: 'object', properties: {} } },
}));

let server: FakeGateway;
let demo: TestGateway;
const pulls: string[] = [];
beforeAll(async () => {
  const options = { modelName: 'demo', httpListen: '127.0.0.1:0' };
  server = await startFakeGateway({
    script: spelled(ANSWER),
    model: { chatTemplate: TEMPLATE },
    ...options,
    idleUnloadMs: 3_600_000,
    pullModel: async (name, progress) => {
      pulls.push(name);
      progress(0, 20);
      progress(20, 20);
      if (name.endsWith('/broken')) throw new Error('the disk is gone');
      return '/cache/model.gguf';
    },
  });
  demo = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
});
afterAll(async () => {
  await server.stop();
  await demo.stop();
});

const lines = (text: string) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const asked = { model: 'demo', messages, options: { num_predict: 24, temperature: 0 } };

describe('Ollama’s /api/chat', () => {
  it('has thinking, text and complete tool calls, streamed by default', async () => {
    const { headers, text } = await ask(server.gateway, '/api/chat', { model: 'demo', messages, tools });
    expect(headers.get('content-type')).toBe('application/x-ndjson');
    const all = lines(text);
    const joined = (name: string) => all.map(({ message }) => message[name] ?? '').join('');
    expect(joined('thinking')).toBe('Hm.');
    expect(joined('content').trim()).toBe('I look.');
    const calls = all.flatMap(({ message }) => message.tool_calls ?? []);
    expect(calls.map((call) => call.function)).toMatchObject([
      { index: 0, name: 'weather', arguments: { place: '東京' } },
      { index: 1, name: 'clock', arguments: {} },
    ]);
    expect(text).toContain('"id":12345678901234567890');
    expect(all.slice(0, -1).every(({ done }) => done === false)).toBe(true);
    expect(all.at(-1)).toMatchObject({ model: 'demo', done: true, done_reason: 'stop' });
    for (const name of ['total_duration', 'prompt_eval_count', 'eval_count', 'eval_duration']) {
      expect(all.at(-1)[name], name).toBeGreaterThan(0);
    }
  });

  it('has the same as one object', async () => {
    const { json } = await ask(server.gateway, '/api/chat', { model: 'demo', messages, tools, stream: false });
    expect(json.message).toMatchObject({ role: 'assistant', content: 'I look.', thinking: 'Hm.' });
    expect(json.message.tool_calls).toHaveLength(2);
    expect(json).toMatchObject({ done: true, done_reason: 'stop' });
  });

  it('writes the text of OpenAI’s chat', async () => {
    const openai = await ask(demo.gateway, '/v1/chat/completions', {
      ...{ model: 'demo', messages, max_tokens: 24, temperature: 0 },
    });
    const expected = openai.json.choices[0].message.content;
    const whole = await ask(demo.gateway, '/api/chat', { ...asked, stream: false });
    expect(whole.json.message.content).toBe(expected);
    expect(whole.json).toMatchObject({ done_reason: 'length', eval_count: 24 });
    const streamed = lines((await ask(demo.gateway, '/api/chat', asked)).text);
    expect(streamed.map(({ message }) => message.content).join('')).toBe(expected);
    // Tokens are joined where writing delays the event loop.
    expect(streamed.length).toBeGreaterThan(1);
  });

  it('draws with Ollama’s defaults, and repeats what a seed gave', async () => {
    const draw = async (seed?: number) =>
      (
        await ask(demo.gateway, '/api/chat', {
          ...{
            model: 'demo',
            messages,
            stream: false,
            options: { num_predict: 24, ...(seed !== undefined && { seed }) },
          },
        })
      ).json.message.content;
    expect(await draw(7)).toBe(await draw(7));
    expect(new Set([await draw(-1), await draw(-1), await draw(), await draw()]).size).toBeGreaterThan(1);
  });

  it('keeps to a schema and to JSON', async () => {
    const format = {
      type: 'object',
      properties: { yes: { type: 'boolean' } },
      required: ['yes'],
      additionalProperties: false,
    };
    const { json } = await ask(demo.gateway, '/api/chat', { ...asked, format, stream: false });
    expect(typeof JSON.parse(json.message.content).yes).toBe('boolean');
    const any = await ask(demo.gateway, '/api/generate', {
      ...{ model: 'demo', prompt: 'x', format: 'json', stream: false, options: { num_predict: 8 } },
    });
    expect(any.json.response).toMatch(/^\s*\{/);
    const wrong = await ask(demo.gateway, '/api/chat', { ...asked, format: 'xml' });
    expect(wrong.status).toBe(400);
    expect(wrong.json.error).toMatch(/^format is .*; it must be "json" or a JSON Schema/);
  });

  it('gives calls without ids some, by which results follow them', async () => {
    const call = (name: string) => ({ function: { name, arguments: { a: 1 } } });
    const turns = [
      ...messages,
      { role: 'assistant', content: '', tool_calls: [call('weather'), call('clock')] },
      { role: 'tool', tool_name: 'clock', content: 'noon' },
      { role: 'tool', content: 'rain' },
    ];
    const { status, json } = await ask(server.gateway, '/api/chat', {
      model: 'demo',
      messages: turns,
      tools,
      stream: false,
    });
    expect([status, json.error]).toEqual([200, undefined]);
  });

  it('has log probabilities of its tokens', async () => {
    const { json } = await ask(demo.gateway, '/api/chat', { ...asked, stream: false, logprobs: true, top_logprobs: 2 });
    expect(json.logprobs).toHaveLength(24);
    expect(json.logprobs[0].top_logprobs).toHaveLength(2);
    expect(json.logprobs[0].logprob).toBeLessThanOrEqual(0);
  });

  it.each([
    [
      'images',
      { messages: [{ role: 'user', content: '', images: ['aGk='] }] },
      /^messages\[0\]\.images is not supported/,
    ],
    ['mirostat', { options: { mirostat: 2 } }, /^options\.mirostat is 2; it must be 0/],
    ['a wrong duration', { keep_alive: 'soon' }, /^keep_alive is "soon"; it must be/],
    ['a wrong effort', { think: 'a bit' }, /^think is "a bit"; it must be one of/],
  ])('rejects %s by name', async (_, fields, message) => {
    const { status, json } = await ask(demo.gateway, '/api/chat', { ...asked, ...fields });
    expect([status, json.error]).toEqual([400, expect.stringMatching(message)]);
  });

  it('reports fields without effect', async () => {
    const { headers } = await ask(demo.gateway, '/api/chat', {
      ...{ ...asked, options: { ...asked.options, num_ctx: 2048, num_gpu: 1 }, keep_alive: '5m', mood: 'good' },
    });
    expect(headers.get('x-rocmforge-ignored-fields')?.split(', ').sort()).toEqual([
      'keep_alive',
      'mood',
      'options.num_ctx',
    ]);
    const { headers: kept } = await ask(server.gateway, '/api/chat', { model: 'demo', messages, keep_alive: '5m' });
    expect(kept.get('x-rocmforge-ignored-fields')).toBeNull();
  });

  it('names a model that is not served, and knows “latest”', async () => {
    const { status, json } = await ask(demo.gateway, '/api/chat', { ...asked, model: 'llama3' });
    expect([status, json.error]).toEqual([404, 'there is no model "llama3" here, only "demo"']);
    const latest = await ask(demo.gateway, '/api/chat', { ...asked, model: 'demo:latest', stream: false });
    expect([latest.status, latest.json.model]).toEqual([200, 'demo:latest']);
  });
});

describe('Ollama’s /api/generate', () => {
  const generated = async (body: object) =>
    (await ask(demo.gateway, '/api/generate', { model: 'demo', stream: false, ...body })).json;

  it('sends the prompt as a user message, and raw ones as they are', async () => {
    const { options } = asked;
    const chat = (await ask(demo.gateway, '/api/chat', { ...asked, stream: false })).json;
    const prompted = await generated({ prompt: 'the weather', options });
    expect(prompted.response).toBe(chat.message.content);
    expect(prompted.prompt_eval_count).toBe(chat.prompt_eval_count);
    const raw = await generated({ prompt: 'the weather', raw: true, options });
    const completed = await ask(demo.gateway, '/v1/completions', {
      prompt: 'the weather',
      max_tokens: 24,
      temperature: 0,
    });
    expect(raw.response).toBe(completed.json.choices[0].text);
  });

  it('streams', async () => {
    const { text } = await ask(demo.gateway, '/api/generate', {
      model: 'demo',
      prompt: 'Hi',
      options: { num_predict: 4 },
    });
    const all = lines(text);
    expect(all.every(({ response }) => typeof response === 'string')).toBe(true);
    expect(all.at(-1)).toMatchObject({ done: true, done_reason: 'length', eval_count: 4 });
  });

  it('loads and unloads the model if there is no prompt', async () => {
    expect(await generated({})).toMatchObject({ response: '', done: true, done_reason: 'load' });
    const kept = await ask(demo.gateway, '/api/generate', { model: 'demo', keep_alive: 0 });
    expect([kept.status, kept.json.error]).toEqual([501, expect.stringContaining('--idle-unload')]);
    const loaded = async () => (await ask(server.gateway, '/api/ps')).json.models;
    expect(await loaded()).toMatchObject([{ name: 'demo', context_length: 4096 }]);
    const unload = await ask(server.gateway, '/api/generate', { model: 'demo', keep_alive: 0 });
    expect(unload.json).toMatchObject({ done_reason: 'unload' });
  });
});

describe('Ollama’s requests about models', () => {
  it('lists and describes what is served', async () => {
    const { json } = await ask(demo.gateway, '/api/tags');
    const [model] = json.models;
    expect(model).toMatchObject({ name: 'demo', model: 'demo', details: { format: 'gguf', family: 'llama' } });
    expect(model.digest).toMatch(/^[0-9a-f]{64}$/);
    expect(model.size).toBeGreaterThan(100_000);
    expect(Date.parse(model.modified_at)).toBeGreaterThan(0);
    const { json: ps } = await ask(demo.gateway, '/api/ps');
    expect(ps.models).toMatchObject([{ name: 'demo', digest: model.digest, expires_at: '9999-12-31T23:59:59Z' }]);
    const { json: shown } = await ask(demo.gateway, '/api/show', { model: 'demo' });
    expect(shown.model_info).toMatchObject({ 'general.architecture': 'llama', 'tokenizer.ggml.tokens': null });
    expect(shown.capabilities).toContain('completion');
    expect(shown.template.length).toBeGreaterThan(0);
    const { json: scripted } = await ask(server.gateway, '/api/show', { name: 'demo:latest' });
    expect(scripted.capabilities).toEqual(['completion', 'tools', 'thinking']);
    expect((await ask(demo.gateway, '/api/version')).json.version).toMatch(/^\d+\.\d+\.\d+$/);
    expect((await ask(demo.gateway, '/api/show', { model: 'other' })).status).toBe(404);
  });

  it('downloads with --http-pull only, with the progress', async () => {
    expect((await ask(demo.gateway, '/api/pull', { model: 'demo', stream: false })).json).toEqual({
      status: 'success',
    });
    const off = await ask(demo.gateway, '/api/pull', { model: 'hf.co/a/b' });
    expect([off.status, off.json.error]).toEqual([501, expect.stringContaining('--http-pull')]);
    const { text } = await ask(server.gateway, '/api/pull', { model: 'hf.co/a/b' });
    expect(lines(text).map(({ status, completed }) => [status, completed])).toEqual([
      ['pulling hf.co/a/b', 0],
      ['pulling hf.co/a/b', 20],
      ['verifying sha256 digest', undefined],
      ['success', undefined],
    ]);
    const broken = await ask(server.gateway, '/api/pull', { model: 'hf.co/a/broken' });
    expect(lines(broken.text).at(-1).error).toBeTypeOf('string');
    expect(pulls).toEqual(['hf.co/a/b', 'hf.co/a/broken']);
  });

  it('rejects requests that would change the store of models', async () => {
    const { status, json } = await ask(demo.gateway, '/api/create', { model: 'x' });
    expect([status, json.error]).toEqual([400, expect.stringContaining('/api/create is not supported')]);
  });

  it('ends a generation whose client cancels', async () => {
    const controller = new AbortController();
    const response = await fetch(`${baseOf(demo.gateway)}/api/chat`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...asked, options: { num_predict: 2000 } }),
      signal: controller.signal,
    });
    await response.body?.getReader().read();
    controller.abort();
    await expect.poll(() => demo.gateway.models[0]?.router.active).toBe(0);
  });
});
