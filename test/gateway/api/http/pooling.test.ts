import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import { writeRandomFamily } from '../../../support/random-model.js';

const [MEAN, CLS, LAST] = [1, 2, 3];
const LIMITS = { maxSequences: 4, maxStepTokens: 32 };
const OPTIONS = { modelName: 'embedder', httpListen: '127.0.0.1:0', ...LIMITS };
const fileOf = (pooling: number) => writeRandomFamily('qwen3', { metadata: { 'qwen3.pooling_type': pooling } });

let servers: Record<'mean' | 'cls' | 'last' | 'chosen' | 'none', TestGateway>;
beforeAll(async () => {
  servers = {
    mean: await startTestGateway(fileOf(MEAN as number), OPTIONS),
    cls: await startTestGateway(fileOf(CLS as number), OPTIONS),
    last: await startTestGateway(fileOf(LAST as number), OPTIONS),
    none: await startTestGateway(fileOf(LAST as number), { ...OPTIONS, pooling: 'none' }),
    // Other steps, and an option in place of the file's key.
    chosen: await startTestGateway(fileOf(CLS as number), {
      ...OPTIONS,
      pooling: 'mean',
      maxSequences: 7,
      maxStepTokens: 64,
    }),
  };
});
afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop();
});

type Name = keyof typeof servers;
const hash = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');
const texts = Array.from({ length: 16 }, (_, i) => `the old fox ${'ran and sang '.repeat(2 * i + 1)}${i}`);
const embed = async (name: Name, body: object): Promise<readonly number[][]> => {
  const { status, json } = await ask(servers[name].gateway, '/v1/embeddings', { model: 'embedder', ...body });
  expect([status, json.error]).toEqual([200, undefined]);
  return json.data.map(({ embedding }: { embedding: number[] }) => embedding);
};
const idsOf = async (text: string): Promise<number[]> =>
  (await ask(servers.last.gateway, '/tokenize', { content: text, add_special: true })).json.tokens;

describe('pooling', () => {
  it('by mean is the mean in float64 of the states of each token, which are those of its prefix’s last token', async () => {
    for (const text of ['the fox', texts[2] as string]) {
      const ids = await idsOf(text);
      const prefixes = ids.map((_, i) => ids.slice(0, i + 1));
      // The JSON of an f32 has nine digits, which tell it from all others.
      const states = (await embed('last', { input: prefixes, normalize: false })).map((state) =>
        state.map(Math.fround),
      );
      const expected = (states[0] as number[]).map((_, i) =>
        Math.fround(states.reduce((sum, state) => sum + (state[i] as number), 0) / states.length),
      );
      const [pooled] = await embed('mean', { input: text, normalize: false });
      expect(pooled!.map(Math.fround)).toEqual(expected);
      const norm = Math.sqrt(expected.reduce((sum, value) => sum + value * value, 0));
      const [normalized] = await embed('mean', { input: text });
      for (const [i, value] of normalized!.entries()) expect(value).toBeCloseTo(expected[i]! / norm, 6);
      const [cut] = await embed('mean', { input: text, dimensions: 8 });
      const first = expected.slice(0, 8);
      expect(cut).toHaveLength(8);
      for (const [i, value] of cut!.entries()) expect(value).toBeCloseTo(first[i]! / Math.hypot(...first), 6);
    }
  });

  it('by cls is the state of the first token, and counts all tokens', async () => {
    const ids = await idsOf(texts[0] as string);
    const [first] = await embed('last', { input: [ids.slice(0, 1)], normalize: false });
    const [pooled] = await embed('cls', { input: texts[0], normalize: false });
    expect(pooled).toEqual(first);
    const { json } = await ask(servers.cls.gateway, '/v1/embeddings', { input: texts[0] });
    expect(json.usage.prompt_tokens).toBe(ids.length);
  });

  it('by none is the state of each token’s prefix, unscaled, for llama.cpp’s paths alone', async () => {
    const ids = await idsOf(texts[1] as string);
    const prefixes = ids.map((_, i) => ids.slice(0, i + 1));
    const states = await embed('last', { input: prefixes, normalize: false });
    const both = { input: [texts[1], ids.slice(0, 2)] };
    for (const path of ['/embeddings', '/embedding']) {
      const { json } = await ask(servers.none.gateway, path, both);
      expect(json).toEqual([
        { index: 0, embedding: states },
        { index: 1, embedding: states.slice(0, 2) },
      ]);
    }
    for (const [path, body] of [
      ['/v1/embeddings', both],
      ['/api/embed', { model: 'embedder', input: 'a' }],
      ['/v1/rerank', { query: 'a', documents: ['b'] }],
    ] as const) {
      const { status, json } = await ask(servers.none.gateway, path, body);
      expect([path, status, JSON.stringify(json.error)]).toEqual([path, 400, expect.stringContaining('--pooling')]);
    }
    const cut = await ask(servers.none.gateway, '/embedding', { ...both, dimensions: 8 });
    expect([cut.status, cut.json.error.param]).toEqual([400, 'dimensions']);
  });

  it.each<Name>(['mean', 'cls', 'last'])('by %s has the same bits alone and among 16', async (name) => {
    const together = await embed(name, { input: texts });
    for (const [i, text] of texts.entries()) {
      const [alone] = await embed(name, { input: text });
      expect(hash(alone), `text ${i}`).toBe(hash(together[i]));
    }
    expect(new Set(together.map(hash)).size).toBe(name === 'cls' ? 1 : 16);
  });

  it('by mean has the same bits in other steps, beside generation, and after others have left the same prefix', async () => {
    const before = hash(await embed('mean', { input: texts }));
    expect(hash(await embed('chosen', { input: texts }))).toBe(before);
    const stories = [1, 2].map((seed) =>
      ask(servers.mean.gateway, '/v1/completions', { prompt: texts[9], max_tokens: 60, seed, ignore_eos: true }),
    );
    // Steps with masks run in two parts.
    const constrained = { prompt: texts[9], max_tokens: 60, guided_regex: '[a-z ]{60,}', seed: 3 };
    stories.push(ask(servers.mean.gateway, '/v1/completions', constrained));
    const during = await Promise.all([1, 2].map(() => embed('mean', { input: texts })));
    for (const one of during) expect(hash(one)).toBe(before);
    for (const { status } of await Promise.all(stories)) expect(status).toBe(200);
  });

  it('by mean has the same bits from a model that is split over two devices', async () => {
    const executor = { spawn: { device: 'host', threads: 2, split: 'layer', gpus: [0, 1] } } as const;
    const split = await startTestGateway(fileOf(MEAN as number), { ...OPTIONS, executor });
    try {
      const { json } = await ask(split.gateway, '/v1/embeddings', { input: texts });
      const states = json.data.map(({ embedding }: { embedding: number[] }) => embedding);
      expect(hash(states)).toBe(hash(await embed('mean', { input: texts })));
    } finally {
      await split.stop();
    }
  });

  it('by mean survives the end of the executor with the same bits', async () => {
    const { gateway } = servers.mean;
    const before = hash(await embed('mean', { input: texts }));
    const epoch = gateway.executorEpoch();
    const running = Promise.all(Array.from({ length: 4 }, () => embed('mean', { input: texts })));
    await new Promise((resolve) => setTimeout(resolve, 30));
    process.kill(gateway.executorPid() as number, 'SIGKILL');
    for (const one of await running) expect(hash(one)).toBe(before);
    await expect.poll(() => gateway.executorEpoch()).toBeGreaterThan(epoch);
  });
});
