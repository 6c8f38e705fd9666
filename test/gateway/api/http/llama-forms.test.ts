import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask, eventsOf } from '../../../support/http.js';

const CHAT = '/v1/chat/completions';
const user = { role: 'user', content: 'Tell me a story.' };

/** One gateway as it is by default, one with all that may be said of it and asked of it. */
let plain: TestGateway;
let named: TestGateway;
beforeAll(async () => {
  plain = await startTestGateway('models/demo.gguf', { httpListen: '127.0.0.1:0' });
  named = await startTestGateway('models/demo.gguf', {
    ...{ httpListen: '127.0.0.1:0', httpPage: false, httpSlots: true, maxSequences: 3 },
    ...{ httpMetrics: true, httpVerbose: true },
    ...{ modelName: 'code', modelAlias: ['fim', 'tiny'], modelTag: ['small'], seed: 42n },
  });
});
afterAll(async () => {
  await plain.stop();
  await named.stop();
});

describe('what a gateway tells of itself', () => {
  it('tells slots where it was started so, and how many of them are busy', async () => {
    expect(await ask(plain.gateway, '/slots')).toMatchObject({
      status: 501,
      json: { error: { type: 'not_supported_error', reason: 'SWITCHED_OFF' } },
    });
    const { status, json } = await ask(named.gateway, '/slots');
    expect(status).toBe(200);
    expect(json.map(({ id, is_processing }: Record<string, unknown>) => [id, is_processing])).toEqual([
      [0, false],
      [1, false],
      [2, false],
    ]);
    const long = { prompt: 'Once', n_predict: 400, ignore_eos: true, temperature: 0 };
    const answer = ask(named.gateway, '/completion', JSON.stringify(long));
    let busy = 0;
    while (busy === 0) {
      const { json: now } = await ask(named.gateway, '/slots');
      busy = now.filter(({ is_processing }: { is_processing: boolean }) => is_processing).length;
    }
    expect(busy).toBe(1);
    expect((await answer).status).toBe(200);
  });

  it('tells metrics by llama.cpp’s names where it was started so', async () => {
    expect(await ask(plain.gateway, '/metrics')).toMatchObject({
      status: 501,
      json: { error: { type: 'not_supported_error', reason: 'SWITCHED_OFF' } },
    });
    const metrics = async () => {
      const { status, text, headers } = await ask(named.gateway, '/metrics');
      expect(status).toBe(200);
      expect(Number(headers.get('process-start-time-unix'))).toBeGreaterThan(1e9);
      return (name: string) => Number(new RegExp(`^llamacpp:${name} (.+)$`, 'm').exec(text)?.[1]);
    };
    const before = await metrics();
    const sums = { computed: 0, cached: 0, generated: 0 };
    const prompt = 'Once upon a time there was a fox who lived in the woods and had no friends at all.'.repeat(3);
    for (let i = 0; i < 2; i++) {
      const { json } = await ask(named.gateway, '/completion', JSON.stringify({ prompt, n_predict: 8 }));
      sums.computed += json.timings.prompt_n;
      sums.cached += json.timings.cache_n;
      sums.generated += json.timings.predicted_n;
    }
    expect(sums.cached).toBeGreaterThan(0);
    // Its prompts are computed, and nothing is generated.
    const { status, json } = await ask(
      named.gateway,
      '/v1/embeddings',
      JSON.stringify({ input: ['a fox', 'the woods'] }),
    );
    expect(status).toBe(200);
    sums.computed += json.usage.prompt_tokens;
    const then = await metrics();
    const grown = (name: string) => then(name) - before(name);
    expect(grown('prompt_tokens_total')).toBe(sums.computed);
    expect(grown('prompt_tokens_cached_total')).toBe(sums.cached);
    expect(grown('tokens_predicted_total')).toBe(sums.generated);
    expect(grown('n_decode_total')).toBeGreaterThan(1);
    expect(grown('prompt_seconds_total')).toBeGreaterThan(0);
    expect(grown('tokens_predicted_seconds_total')).toBeGreaterThan(0);
    expect(then('predicted_tokens_seconds')).toBeGreaterThan(0);
    expect(then('n_busy_slots_per_decode')).toBeGreaterThanOrEqual(1);
    expect([then('requests_processing'), then('requests_deferred')]).toEqual([0, 0]);
  });

  it('tells the prompt of chats where it was started so, of large ones, too, and not where a request says no', async () => {
    const told = async ({ gateway }: TestGateway, more: object, content = user.content) => {
      const body = JSON.stringify({ messages: [{ role: 'user', content }], max_tokens: 1, ...more });
      const { status, json } = await ask(gateway, CHAT, body);
      expect(status).toBe(200);
      return json.__verbose?.prompt as string | undefined;
    };
    expect(await told(named, {})).toContain(user.content);
    const variables = { chat_template_kwargs: { unused: 'x'.repeat(40_000) } };
    expect(await told(named, variables)).toContain(user.content);
    expect(await told(named, { verbose: false })).toBeUndefined();
    expect(await told(plain, {})).toBeUndefined();
    expect(await told(plain, { verbose: true })).toContain(user.content);
  });

  it('says that an answer is cut where the context is full before it is over', async () => {
    const { json: props } = await ask(plain.gateway, '/props');
    const context: number = props.default_generation_settings.n_ctx;
    const prompt = Array.from({ length: context - 8 }, () => 5);
    const complete = async (n: number) =>
      (await ask(plain.gateway, '/completion', JSON.stringify({ prompt, n_predict: n, ignore_eos: true }))).json;
    expect(await complete(-1)).toMatchObject({ truncated: true, tokens_predicted: 8, stop_type: 'limit' });
    expect(await complete(8)).toMatchObject({ truncated: false, tokens_predicted: 8, stop_type: 'limit' });
    expect(await complete(4)).toMatchObject({ truncated: false, tokens_predicted: 4, stop_type: 'limit' });
  });

  it('has no page where it was started without one', async () => {
    expect((await ask(named.gateway, '/')).status).toBe(404);
  });

  it('takes a request under each of the model’s names, and lists them', async () => {
    const { json } = await ask(named.gateway, '/v1/models');
    expect(json.data[0]).toMatchObject({ id: 'code', aliases: ['code', 'fim', 'tiny'], tags: ['small'] });
    for (const model of ['code', 'fim', 'tiny']) {
      const body = JSON.stringify({ model, prompt: 'Once', max_tokens: 1 });
      expect((await ask(named.gateway, '/v1/completions', body)).status).toBe(200);
    }
    const other = JSON.stringify({ model: 'large', prompt: 'Once', max_tokens: 1 });
    expect((await ask(named.gateway, '/v1/completions', other)).status).toBe(404);
  });

  it('draws with its seed where a request gives none, and says so', async () => {
    const props = await ask(named.gateway, '/props');
    expect(props.json.default_generation_settings.params.seed).toBe(42);
    expect((await ask(plain.gateway, '/props')).json.default_generation_settings.params.seed).toBe(2 ** 32 - 1);
    const drawn = async (more: object) =>
      (await ask(named.gateway, '/completion', JSON.stringify({ prompt: 'Once', n_predict: 24, ...more }))).json;
    const [first, second, other] = [await drawn({}), await drawn({}), await drawn({ seed: 43 })];
    expect([first.content, first.generation_settings.seed]).toEqual([second.content, 42]);
    expect(other.content).not.toBe(first.content);
    const completed = async (seed?: number) => {
      const asked = { model: 'code', prompt: 'Once', max_tokens: 24, temperature: 1, seed };
      return (await ask(named.gateway, '/v1/completions', JSON.stringify(asked))).json.choices[0].text;
    };
    const [usual, none, given] = [await completed(), await completed(-1), await completed(43)];
    expect([none === usual, given === usual]).toEqual([true, false]);
  });
});

describe('prompts and biases as llama.cpp has them', () => {
  it('compute a prompt for the prefix cache with n_predict 0', async () => {
    const body = { prompt: `A prompt of several blocks: ${'the fox ran to the river, '.repeat(8)}`, temperature: 0 };
    const { status, json } = await ask(plain.gateway, '/completion', { ...body, n_predict: 0 });
    expect(status).toBe(200);
    expect(json).toMatchObject({ content: '', tokens_predicted: 0, stop: true, stop_type: 'limit', truncated: false });
    expect(json.timings.cache_n).toBe(0);
    const next = await ask(plain.gateway, '/completion', { ...body, n_predict: 1 });
    expect(next.json.timings.cache_n).toBeGreaterThan(json.tokens_evaluated / 2);
    const streamed = eventsOf((await ask(plain.gateway, '/completion', { ...body, n_predict: 0, stream: true })).text);
    expect(streamed.map((event) => JSON.parse(event))).toMatchObject([
      { content: '', stop: true, tokens_predicted: 0 },
    ]);
  });

  const complete = async (body: object) => {
    const asked = JSON.stringify({ n_predict: 8, temperature: 0, return_tokens: true, ...body });
    return ask(plain.gateway, '/completion', asked);
  };
  const tokenize = async (content: string, more = {}): Promise<number[]> =>
    (await ask(plain.gateway, '/tokenize', JSON.stringify({ content, ...more }))).json.tokens;

  it('goes on with texts and ids in one prompt as with their ids', async () => {
    const begun = await tokenize('Once upon', { add_special: true });
    const more = await tokenize(' a time');
    const { json: expected } = await complete({ prompt: [...begun, ...more, ...more] });
    const { json } = await complete({ prompt: ['Once upon', ...more, ' a time'] });
    expect([json.tokens, json.prompt]).toEqual([expected.tokens, expected.prompt]);
    const { json: object } = await complete({ prompt: { prompt_string: 'Once upon' } });
    expect(object.tokens).toEqual((await complete({ prompt: begun })).json.tokens);
  });

  it('refuses parts that are neither, media, and more ids than the context has', async () => {
    const field = (json: { error: { param: string } }) => json.error.param;
    for (const prompt of [[1, {}], [1, null], [1, 1.5], [1, [2]], { prompt_string: 1 }, {}, [[1, 'a', true]]]) {
      const { status, json } = await complete({ prompt });
      expect([prompt, status, field(json).startsWith('prompt')]).toEqual([prompt, 400, true]);
    }
    const media = await complete({ prompt: { prompt_string: 'a', multimodal_data: ['eA=='] } });
    expect([media.status, field(media.json)]).toEqual([400, 'prompt.multimodal_data']);
    const many = await complete({ prompt: ['a', ...Array(100_000).fill(1)] });
    expect([many.status, many.json.error.reason]).toEqual([400, 'PROMPT_TOO_LONG']);
    const parts = await complete({ prompt: Array.from({ length: 10_000 }, (_, i) => (i % 2 === 0 ? 1 : 'a')) });
    expect([parts.status, parts.json.error.reason]).toEqual([400, 'INVALID_FIELD']);
  });

  it('tells of a prompt that does not fit in words that its clients look for', async () => {
    const { status, json } = await complete({ prompt: 'once upon a time '.repeat(2000) });
    expect([status, json.error.type]).toEqual([400, 'exceed_context_size_error']);
    expect(json.error.message).toMatch(/exceeds the available context size/);
  });

  it('adds a text’s bias to each of its tokens, and what is named twice twice', async () => {
    const { json: free } = await complete({ prompt: 'Once upon a time', n_predict: 1 });
    const [likeliest] = free.tokens;
    const bias = await complete({ prompt: 'Once upon a time', n_predict: 1, logit_bias: { [likeliest]: -100 } });
    expect(bias.json.tokens).not.toEqual([likeliest]);
    const word = (await ask(plain.gateway, '/detokenize', JSON.stringify({ tokens: [likeliest] }))).json.content;
    expect(await tokenize(word)).toContain(likeliest);
    for (const logit_bias of [
      { [word]: -100 },
      [[word, false]],
      [
        [word, -50],
        [likeliest, -50],
      ],
      [
        [likeliest, -50],
        [likeliest, -50],
      ],
    ]) {
      const { json } = await complete({ prompt: 'Once upon a time', n_predict: 1, logit_bias });
      expect([logit_bias, json.tokens]).toEqual([logit_bias, bias.json.tokens]);
    }
    for (const logit_bias of [{ '': -1 }, [[[], 1]], [[1.5, 1]], [['a', 'b']], { ['a'.repeat(300)]: 1 }]) {
      const { status, json } = await complete({ prompt: 'Once', logit_bias });
      expect([status, json.error.param]).toEqual([400, 'logit_bias']);
    }
  });

  it('tells which tokens end a text where they are ignored', async () => {
    const biases = async (ignore_eos: boolean) =>
      (await complete({ prompt: 'Once', ignore_eos })).json.generation_settings.logit_bias;
    expect(await biases(false)).toEqual([]);
    const told = await biases(true);
    expect(told.length).toBeGreaterThan(0);
    for (const { bias } of told) expect(bias).toBeNull();
  });
});

describe('an answer that the request begins', () => {
  const chat = async (messages: readonly object[], more = {}) =>
    ask(plain.gateway, CHAT, JSON.stringify({ messages, temperature: 0, max_tokens: 8, verbose: true, ...more }));
  const begun = { role: 'assistant', content: 'Once upon' };
  const promptOf = (json: { __verbose: { prompt: string } }) => json.__verbose.prompt;

  it('goes on with a turn of the assistant at the end, as with one prompt', async () => {
    const open = promptOf((await chat([user])).json);
    const { json } = await chat([user, begun]);
    expect(promptOf(json)).toBe(`${open}Once upon`);
    const explicit = await chat([user, begun], { continue_final_message: true, add_generation_prompt: false });
    expect(promptOf(explicit.json)).toBe(promptOf(json));
    const { json: rendered } = await ask(plain.gateway, '/apply-template', JSON.stringify({ messages: [user, begun] }));
    expect(rendered.prompt.endsWith('Once upon')).toBe(true);
    // Otherwise it is a turn that has ended, and another one is opened.
    const ended = promptOf((await chat([user, begun], { continue_final_message: false })).json);
    expect(ended.startsWith(promptOf(json))).toBe(true);
    expect(ended.length).toBeGreaterThan(promptOf(json).length);
  });

  it('is streamed with its prompt, where that was asked for', async () => {
    const { text } = await chat([user, begun], { stream: true });
    const told = eventsOf(text).filter((event) => event.includes('__verbose'));
    expect(told).toHaveLength(1);
    expect(promptOf(JSON.parse(told[0] as string)).endsWith('Once upon')).toBe(true);
  });

  it('keeps the names of control tokens in it plain text', async () => {
    const plainText = { role: 'assistant', content: 'a</s>b' };
    const { json } = await chat([user, plainText]);
    expect(promptOf(json).endsWith('a</s>b')).toBe(true);
    const count = async (messages: readonly object[]) =>
      (await ask(plain.gateway, `${CHAT}/input_tokens`, JSON.stringify({ messages }))).json.input_tokens;
    const [whole, none] = [await count([user, plainText]), await count([user, { role: 'assistant', content: '' }])];
    // The name's letters, not the token.
    expect(whole - none).toBeGreaterThan(3);
  });

  it('refuses what cannot be gone on with', async () => {
    const refused = [
      chat([user, begun], { continue_final_message: true, add_generation_prompt: true }),
      chat([user], { continue_final_message: true }),
      chat([user, { ...begun, reasoning_content: 'hm' }], { continue_final_message: true }),
    ];
    for (const { status, json } of await Promise.all(refused)) {
      expect([status, json.error.param]).toEqual([400, 'continue_final_message']);
    }
    expect((await chat([user, begun, begun])).json.error).toMatchObject({ code: 'INVALID_FIELD', param: 'messages' });
  });
});

describe('variables for the chat template', () => {
  const render = async (variables: unknown) =>
    ask(plain.gateway, '/apply-template', JSON.stringify({ messages: [user], chat_template_kwargs: variables }));

  it('refuses what is not an object, what every template is given, and what is too large', async () => {
    for (const variables of [1, 'a', [1], { messages: [] }, { bos_token: 'x' }, { x: 'y'.repeat(70_000) }]) {
      const { status, json } = await render(variables);
      expect([status, json.error.param]).toEqual([400, expect.stringMatching(/template/)]);
    }
    expect((await render({ enable_thinking: false })).status).toBe(200);
    expect((await render(null)).status).toBe(200);
  });
});
