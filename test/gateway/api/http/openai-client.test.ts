import OpenAI, { APIError, BadRequestError, NotFoundError } from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ChatInput } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { baseOf } from '../../../support/http.js';

const MODEL = 'models/demo.gguf';
const messages = [{ role: 'user' as const, content: 'Tell me a story about a fox.' }];

let server: TestGateway;
let openai: OpenAI;
beforeAll(async () => {
  server = await startTestGateway(MODEL, { httpListen: '127.0.0.1:0' });
  openai = new OpenAI({ baseURL: `${baseOf(server.gateway)}/v1`, apiKey: 'none', maxRetries: 0 });
});
afterAll(() => server.stop());

/** The text of the same conversation through the gRPC server. */
async function throughGrpc(maxTokens: number): Promise<string> {
  const { generate, request } = await import('../../../support/gateway.js');
  const turns = messages.map((turn) => ({ ...turn, name: '', toolCalls: [], toolCallId: '', reasoning: '' }));
  const answer = await generate(
    server.client,
    request({
      input: { $case: 'chat', value: ChatInput.fromPartial({ messages: turns }) },
      sampling: { temperature: 0 },
      stop: { maxTokens },
    }),
  );
  return answer.text;
}

it('lists the model, and finds it by its name', async () => {
  const models = await openai.models.list();
  expect(models.data.map(({ id, object }) => [id, object])).toEqual([['demo', 'model']]);
  expect((await openai.models.retrieve('demo')).id).toBe('demo');
  await expect(openai.models.retrieve('other')).rejects.toBeInstanceOf(NotFoundError);
});

it('chats with the text that the gRPC server answers with', async () => {
  const answer = await openai.chat.completions.create({ model: 'demo', messages, temperature: 0, max_tokens: 24 });
  const [choice] = answer.choices;
  expect(choice?.message).toMatchObject({ role: 'assistant', content: await throughGrpc(24) });
  expect(choice?.finish_reason).toBe('length');
  expect(answer.usage).toMatchObject({ completion_tokens: 24 });
  expect(answer.usage?.total_tokens).toBe((answer.usage?.prompt_tokens ?? 0) + 24);
});

it('streams the same text, piece by piece, with its usage at the end', async () => {
  const stream = await openai.chat.completions.create({
    model: 'demo',
    messages,
    temperature: 0,
    max_completion_tokens: 24,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let pieces = 0;
  const ends: unknown[] = [];
  let usage: unknown;
  for await (const chunk of stream) {
    const [choice] = chunk.choices;
    if (choice?.delta.content) pieces += 1;
    text += choice?.delta.content ?? '';
    if (choice?.finish_reason) ends.push(choice.finish_reason);
    if (chunk.usage) usage = chunk.usage;
  }
  expect(text).toBe(await throughGrpc(24));
  expect(pieces).toBeGreaterThan(1);
  expect(ends).toEqual(['length']);
  expect(usage).toMatchObject({ completion_tokens: 24 });
});

it('answers with n choices, each by its index', async () => {
  const answer = await openai.chat.completions.create({ model: 'demo', messages, n: 3, seed: 7, max_tokens: 8 });
  expect(answer.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
  const again = await openai.chat.completions.create({ model: 'demo', messages, n: 3, seed: 7, max_tokens: 8 });
  expect(again.choices).toEqual(answer.choices);
});

it('tells log probabilities of the chosen tokens and of the likeliest', async () => {
  const options = { model: 'demo', messages, temperature: 0, max_tokens: 4, logprobs: true, top_logprobs: 3 };
  const answer = await openai.chat.completions.create(options);
  const [choice] = answer.choices;
  const content = choice?.logprobs?.content ?? [];
  expect(content).toHaveLength(4);
  for (const { token, logprob, bytes, top_logprobs: top } of content) {
    expect(top).toHaveLength(3);
    // Greedy: the chosen one is the likeliest.
    expect([top[0]?.token, top[0]?.logprob]).toEqual([token, logprob]);
    expect(Buffer.from(bytes ?? []).toString()).toBe(token);
  }
  expect(content.map(({ token }) => token).join('')).toBe(choice?.message.content);
});

it('completes a prompt, echoes it, and stops where it is told to', async () => {
  const plain = await openai.completions.create({ model: 'demo', prompt: 'Once upon', temperature: 0, max_tokens: 12 });
  const text = plain.choices[0]?.text ?? '';
  const echoed = await openai.completions.create({
    model: 'demo',
    prompt: 'Once upon',
    temperature: 0,
    max_tokens: 12,
    echo: true,
  });
  expect(echoed.choices[0]?.text).toBe(`Once upon${text}`);
  const word = text.trim().split(' ')[2] as string;
  const stopped = await openai.completions.create({
    model: 'demo',
    prompt: 'Once upon',
    temperature: 0,
    max_tokens: 12,
    stop: word,
  });
  expect(stopped.choices[0]).toMatchObject({ text: text.slice(0, text.indexOf(word)), finish_reason: 'stop' });
});

it('scores a prompt without tokens to generate, as lm-evaluation-harness asks for it', async () => {
  const asked = { model: 'demo', prompt: 'Once upon a time', temperature: 0, echo: true, logprobs: 2 };
  const one = await openai.completions.create({ ...asked, max_tokens: 1 });
  const none = await openai.completions.create({ ...asked, max_tokens: 0 });
  const [long, scored] = [one.choices[0], none.choices[0]];
  expect(scored).toMatchObject({ text: 'Once upon a time', finish_reason: 'length' });
  expect(scored?.logprobs?.tokens).toHaveLength(none.usage?.prompt_tokens as number);
  for (const list of ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const) {
    expect(scored?.logprobs?.[list]).toEqual(long?.logprobs?.[list]?.slice(0, -1));
  }
  expect(none.usage).toMatchObject({ completion_tokens: 0, total_tokens: none.usage?.prompt_tokens });
  let streamed = '';
  let tokens = 0;
  for await (const { choices } of await openai.completions.create({ ...asked, max_tokens: 0, stream: true })) {
    streamed += choices[0]?.text ?? '';
    tokens += choices[0]?.logprobs?.tokens?.length ?? 0;
  }
  expect([streamed, tokens]).toEqual(['Once upon a time', none.usage?.prompt_tokens]);
  const plain = await openai.completions.create({ model: 'demo', prompt: ['Once', 'upon'], max_tokens: 0 });
  expect(plain.choices.map(({ text, finish_reason }) => [text, finish_reason])).toEqual([
    ['', 'length'],
    ['', 'length'],
  ]);
});

it('ends a stream that its client has left', async () => {
  const stream = await openai.chat.completions.create({
    model: 'demo',
    messages,
    stream: true,
    max_tokens: 900,
    ...({ ignore_eos: true } as object),
  });
  const { metrics } = server.gateway;
  const running = async () => (await metrics.registry.getSingleMetricAsString('rocmforge_num_requests_running')) ?? '';
  for await (const _chunk of stream) break;
  await expect.poll(running).toMatch(/ 0$/m);
  const ended = await metrics.registry.getSingleMetricAsString('rocmforge_request_total');
  expect(ended).toMatch(/outcome="cancelled"\} [1-9]/);
});

it.each([
  [{ temperature: -1 }, 'temperature'],
  [{ top_p: -1 }, 'top_p'],
  [{ max_tokens: -2 }, 'max_tokens'],
  [{ n: 0 }, 'n'],
  [{ max_tokens: 0 }, 'max_tokens'],
  [{ logit_bias: { '99999999': 1 } }, 'logit_bias'],
  [{ top_logprobs: 2 }, 'top_logprobs'],
  [{ messages: [{ role: 'wizard', content: 'x' }] }, 'messages[0].role'],
  [
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] }] },
    'messages[0].content[0].type',
  ],
  [{ functions: [{ name: 'f' }] }, 'functions'],
  [{ reasoning_effort: 'extreme' }, 'reasoning_effort'],
  [{ messages: [] }, 'messages'],
])('refuses %j by the name of the field', async (wrong, param) => {
  const call = openai.chat.completions.create({ model: 'demo', messages, max_tokens: 4, ...(wrong as object) });
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(BadRequestError);
  expect((error as APIError).param).toBe(param);
});

it.each([[{ audio: { voice: 'a' } }, 'audio']])('says of %j that it is not built', async (wrong, param) => {
  const call = openai.chat.completions.create({ model: 'demo', messages, max_tokens: 4, ...(wrong as object) });
  await expect(call).rejects.toMatchObject({ status: 400, param });
});

it('says of a model that is not served that there is none', async () => {
  const call = openai.chat.completions.create({ model: 'gpt-9', messages });
  await expect(call).rejects.toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
});

it('gives a stream that is refused a status of its own', async () => {
  const call = openai.chat.completions.create({ model: 'demo', messages, stream: true, temperature: 99, top_p: 2 });
  await expect(call).rejects.toBeInstanceOf(APIError);
});
