import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rocmforge } from '../../../support/command-line.js';
import { llamaEmbeddings, TEXTS, writePooledEncoder } from '../../../support/encoder-answers.js';
import { float64Encoder } from '../../../support/float64-encoder.js';
import { generate, request, startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import {
  CLS,
  RANDOM_ENCODER_NAMES,
  type RandomEncoderName,
  SEP,
  writeRandomEncoder,
} from '../../../support/random-encoders.js';

const OPTIONS = { modelName: 'embedder', httpListen: '127.0.0.1:0', maxSequences: 16, kvCacheType: 'f32' } as const;
const CONTEXT = 256;
/** llama.cpp’s table of GELU moves elements by a thousandth of their deviation at most: test/executor/encoders.test.ts. */
const TABLED = 1e-3 ** 2 / 2;

let servers: Record<'cls' | 'mean' | 'last' | 'none' | 'narrow', TestGateway>;
beforeAll(async () => {
  servers = {
    cls: await startTestGateway(writePooledEncoder('bert', 'cls'), OPTIONS),
    mean: await startTestGateway(writePooledEncoder('bert', 'mean'), OPTIONS),
    last: await startTestGateway(writePooledEncoder('bert', 'last'), OPTIONS),
    none: await startTestGateway(writeRandomEncoder('bert'), { ...OPTIONS, pooling: 'none' }),
    narrow: await startTestGateway(writePooledEncoder('bert', 'mean'), { ...OPTIONS, maxStepTokens: 40 }),
  };
});
afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop();
});

const hash = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');
const texts = Array.from({ length: 24 }, (_, i) => `the old fox ${'ran and sang '.repeat((2 * i) % 15)}${i}`);
const embed = async (server: TestGateway, body: object): Promise<readonly number[][]> => {
  const { status, json } = await ask(server.gateway, '/v1/embeddings', { model: 'embedder', ...body });
  expect([status, json.error]).toEqual([200, undefined]);
  return json.data.map(({ embedding }: { embedding: number[] }) => embedding);
};
const cosineDistance = (a: readonly number[], b: readonly number[]) => {
  const dot = (x: readonly number[], y: readonly number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0);
  return 1 - dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};

describe('embeddings of an encoder', () => {
  it.each(['cls', 'mean', 'last'] as const)('pooled by %s are llama.cpp’s, for ids', async (pooling) => {
    const cases = llamaEmbeddings('bert', pooling);
    const vectors = await embed(servers[pooling], { input: cases.map(({ tokens }) => tokens), normalize: false });
    for (const [i, { embedding }] of cases.entries())
      expect(cosineDistance(vectors[i]!, embedding)).toBeLessThan(TABLED);
  });

  it('stand between [CLS] and [SEP], and are of length 1', async () => {
    const { json } = await ask(servers.cls.gateway, '/tokenize', { content: 'the old fox', add_special: true });
    expect([json.tokens[0], json.tokens.at(-1)]).toEqual([CLS, SEP]);
    const [text] = await embed(servers.mean, { input: 'The OLD fóx' });
    const [ids] = await embed(servers.mean, { input: [json.tokens] });
    expect(text).toEqual(ids);
    expect(Math.hypot(...text!)).toBeCloseTo(1, 6);
    const [cut] = await embed(servers.mean, { input: 'the old fox', dimensions: 8 });
    expect(cut).toHaveLength(8);
  });

  it('of each token are the hidden states, where they are not pooled', async () => {
    const expected = float64Encoder(writeRandomEncoder('bert'), TEXTS[1]!);
    const { json } = await ask(servers.none.gateway, '/embedding', { input: [TEXTS[1]] });
    const states: number[][] = json[0].embedding;
    expect(states).toHaveLength(expected.length);
    for (const [i, state] of states.entries())
      for (const [j, value] of state.entries()) expect(value).toBeCloseTo(expected[i]![j]!, 4);
  });

  it('have the same bits alone, among 24, in small steps, and by gRPC', async () => {
    const alone: (readonly number[])[] = [];
    for (const text of texts) alone.push((await embed(servers.mean, { input: text }))[0]!);
    expect(hash(await embed(servers.mean, { input: texts }))).toBe(hash(alone));
    const short = texts.flatMap((text, i) => (text.split(' ').length * 5 < 36 ? [i] : []));
    const narrow = await embed(servers.narrow, { input: short.map((i) => texts[i]) });
    expect(hash(narrow)).toBe(hash(short.map((i) => alone[i])));
    const { embeddings } = await new Promise<{ embeddings: { values: number[] }[] }>((resolve, reject) => {
      const inputs = texts.map((text) => ({
        input: { $case: 'text' as const, value: { text, parseSpecial: false, addSpecial: undefined } },
      }));
      const message = { model: 'embedder', inputs, truncate: false, priority: 0, requestId: '' };
      servers.mean.client.embed(message, (error, response) => (error ? reject(error) : resolve(response)));
    });
    expect(embeddings.map(({ values }) => values.map(Math.fround))).toEqual(
      alone.map((vector) => vector.map(Math.fround)),
    );
  });
});

describe('inputs that are too long', () => {
  const long = (words: number) => 'fox '.repeat(words);

  it.each([
    ['mean', CONTEXT],
    ['narrow', 40],
  ] as const)('are an error, or are cut: %s', async (name, context) => {
    const fits = long(context - 2);
    await embed(servers[name], { input: fits });
    const { status, json } = await ask(servers[name].gateway, '/v1/embeddings', {
      model: 'embedder',
      input: long(context - 1),
    });
    expect([status, json.error.message]).toEqual([400, expect.stringContaining(`context size of ${context}`)]);
    const [cut] = await embed(servers[name], { input: long(2 * context), truncate_prompt_tokens: -1 });
    expect(hash(cut)).toBe(hash((await embed(servers[name], { input: fits }))[0]));
  });
});

describe('generation by an encoder', () => {
  it.each([
    ['/v1/completions', { model: 'embedder', prompt: 'the', max_tokens: 4 }],
    ['/v1/chat/completions', { model: 'embedder', messages: [{ role: 'user', content: 'the' }] }],
    ['/v1/responses', { model: 'embedder', input: 'the' }],
    ['/v1/messages', { model: 'embedder', max_tokens: 4, messages: [{ role: 'user', content: 'the' }] }],
    ['/api/generate', { model: 'embedder', prompt: 'the' }],
    ['/api/chat', { model: 'embedder', messages: [{ role: 'user', content: 'the' }] }],
    ['/completion', { prompt: 'the', n_predict: 4 }],
  ])('is refused: %s', async (path, body) => {
    const { status, text } = await ask(servers.cls.gateway, path, body);
    expect([status, text]).toEqual([400, expect.stringContaining('the model is an encoder')]);
  });

  it('is refused by gRPC', async () => {
    const error = await generate(servers.cls.client, request({ text: 'the' })).then(
      () => undefined,
      (thrown) => thrown,
    );
    expect(error).toMatchObject({ code: 12, message: expect.stringContaining('the model is an encoder') });
  });

  it.each(['bench', 'verify'])('is refused by %s', async (command) => {
    const model = writePooledEncoder('bert', 'cls');
    const { code, stderr } = await rocmforge(command, '--model', model, '--device', 'host');
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^rocmforge: MODEL_UNSUPPORTED: the model is an encoder.*\n$/),
    ]);
  });
});

it.each(RANDOM_ENCODER_NAMES.filter((name) => name !== 'bert'))('serves %s', async (name: RandomEncoderName) => {
  const server = await startTestGateway(writePooledEncoder(name, 'mean'), OPTIONS);
  const cases = llamaEmbeddings(name, 'mean');
  const vectors = await embed(server, { input: cases.map(({ tokens }) => tokens) });
  for (const [i, { embedding }] of cases.entries()) expect(cosineDistance(vectors[i]!, embedding)).toBeLessThan(TABLED);
  await server.stop();
});
