import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { float64Encoder } from '../../../support/float64-encoder.js';
import { float64Head } from '../../../support/float64-head.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { typed } from '../../../support/gguf-builder.js';
import { ask } from '../../../support/http.js';
import { pooledStates } from '../../../support/pooled-states.js';
import { CLS, RANDOM_ENCODER_VOCABULARY, SEP } from '../../../support/random-encoders.js';
import { writeRandomReranker } from '../../../support/reranker-answers.js';

const OPTIONS = { modelName: 'ranker', httpListen: '127.0.0.1:0', maxSequences: 8, kvCacheType: 'f32' } as const;
const CONTEXT = 256;
const ENDED = { 'tokenizer.ggml.add_eos_token': true, 'tokenizer.ggml.add_sep_token': false };
/** XLM-R's: pieces of words, and two tokens between the texts. */
const PIECES = {
  'tokenizer.ggml.model': 't5',
  'tokenizer.ggml.scores': typed.arrayOf(
    typed.f32,
    Array.from({ length: RANDOM_ENCODER_VOCABULARY }, (_, id) => -1 - (id % 7)),
  ),
  'tokenizer.ggml.add_space_prefix': true,
  'tokenizer.ggml.remove_extra_whitespaces': true,
  'tokenizer.ggml.eos_token_id': SEP,
  ...{
    'tokenizer.ggml.add_bos_token': true,
    'tokenizer.ggml.add_eos_token': true,
    'tokenizer.ggml.add_sep_token': true,
  },
};
const files = {
  pieces: writeRandomReranker('bert-dense', { metadata: PIECES }),
  dense: writeRandomReranker('bert-dense', { metadata: ENDED }),
  modern: writeRandomReranker('modern-bert', { metadata: ENDED }),
  // Without the keys, and without a pooling: as a converter of the first versions wrote it.
  bare: writeRandomReranker('bert-labels', { metadata: { 'bert.pooling_type': undefined } }),
  template: writeRandomReranker('jina-bert-v2', {
    metadata: { 'tokenizer.chat_template.rerank': '[CLS]the {query}[SEP]{document}[SEP]' },
  }),
} as const;
type Name = keyof typeof files;

let servers: Record<Name, TestGateway>;
beforeAll(async () => {
  const started = Object.entries(files).map(
    async ([name, file]) => [name, await startTestGateway(file, OPTIONS)] as const,
  );
  servers = Object.fromEntries(await Promise.all(started)) as typeof servers;
});
afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop();
});

const documents = Array.from(
  { length: 16 },
  (_, i) => `a long night ${'the sea sang to the old fox '.repeat(i % 6)}${i}`,
);
const query = 'the old sea';
const idsOf = async (name: Name, content: string, special = true): Promise<number[]> =>
  (await ask(servers[name].gateway, '/tokenize', { content, add_special: false, parse_special: special })).json.tokens;

/** Scores in the order of the documents. */
async function rank(name: Name, body: object): Promise<readonly number[]> {
  const { status, json } = await ask(servers[name].gateway, '/v1/rerank', { model: 'ranker', query, ...body });
  expect([status, json.error]).toEqual([200, undefined]);
  const scores: number[] = [];
  for (const one of json.results) scores[one.index] = one.relevance_score;
  return scores;
}

/** Score of ids in double precision. */
function expectedOf(file: string, ids: readonly number[], pooling: 'cls' | 'mean'): number {
  const states = float64Encoder(file, ids);
  const values = Float32Array.from(states.flatMap((row) => [...row]));
  return float64Head(file)(pooledStates(pooling, ids.length, (states[0] as Float64Array).length).add(values)!);
}

describe('scores of a reranker', () => {
  const ends = [SEP] as const;
  it.each([
    ['dense', 'cls', (q, d) => [CLS, ...q, SEP, ...d, ...ends]],
    ['modern', 'mean', (q, d) => [CLS, ...q, SEP, ...d, ...ends]],
    ['bare', 'cls', (q, d) => [CLS, ...q, SEP, ...d]],
    ['pieces', 'cls', (q, d) => [CLS, ...q, SEP, SEP, ...d, ...ends]],
  ] as const satisfies readonly (readonly [Name, 'cls' | 'mean', (q: number[], d: number[]) => number[]])[])(
    'are those of both texts between their tokens: %s',
    async (name, pooling, between) => {
      const scores = await rank(name, { documents });
      const q = await idsOf(name, query);
      for (const [i, document] of documents.entries()) {
        const ids = between(q, await idsOf(name, document));
        expect(scores[i]).toBeCloseTo(expectedOf(files[name], ids, pooling), 4);
      }
      expect(Math.max(...scores) - Math.min(...scores)).toBeGreaterThan(0.05);
    },
  );

  it('are their sigmoids in the form of Text Embeddings Inference, unless raw scores are requested', async () => {
    const scores = await rank('dense', { documents });
    const given = { query, texts: documents };
    const listed = async (body: object): Promise<readonly number[]> => {
      const { json } = await ask(servers.dense.gateway, '/rerank', { ...given, ...body });
      const found: number[] = [];
      for (const { index, score } of json) found[index] = score;
      return found;
    };
    expect(await listed({ raw_scores: true, truncate: true })).toEqual(scores);
    const sigmoids = scores.map((score) => 1 / (1 + Math.exp(-score)));
    expect(await listed({})).toEqual(sigmoids);
    expect(await listed({ raw_scores: false })).toEqual(sigmoids);
  });

  it('are those of the file’s prompt for ranking, whose markers no text can write', async () => {
    const [score] = await rank('template', { documents: ['the fox'] });
    const ids = [CLS, ...(await idsOf('template', `the ${query}`)), SEP, ...(await idsOf('template', 'the fox')), SEP];
    expect(score).toBeCloseTo(expectedOf(files.template, ids, 'cls'), 4);
    const [written] = await rank('template', { documents: ['the [SEP] fox'] });
    const plain = ids.toSpliced(-2, 0, ...(await idsOf('template', '[SEP]', false)));
    expect(plain.filter((id) => id === SEP)).toHaveLength(2);
    expect(written).toBeCloseTo(expectedOf(files.template, plain, 'cls'), 4);
  });

  it.each<Name>(['dense', 'modern'])(
    'have the same bits alone and among 16, in every form of a request: %s',
    async (name) => {
      const together = await rank(name, { documents });
      for (const [i, document] of documents.entries())
        expect(await rank(name, { documents: [document] })).toEqual([together[i]]);
      const { gateway } = servers[name];
      const { json: listed } = await ask(gateway, '/rerank', { query, texts: documents, raw_scores: true });
      for (const { index, score } of listed) expect(score).toBe(together[index]);
      expect(listed.map(({ score }: { score: number }) => score)).toEqual(together.toSorted((a, b) => b - a));
      const { json: scored } = await ask(gateway, '/v1/score', { text_1: query, text_2: documents });
      expect(scored.data.map(({ score }: { score: number }) => score)).toEqual(together);
    },
  );

  it('have the same bits after the executor was killed', async () => {
    const { gateway } = servers.dense;
    const before = await rank('dense', { documents });
    const epoch = gateway.executorEpoch();
    const running = Promise.all(Array.from({ length: 6 }, () => rank('dense', { documents })));
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.kill(gateway.executorPid() as number, 'SIGKILL');
    for (const scores of await running) expect(scores).toEqual(before);
    await expect.poll(() => gateway.executorEpoch()).toBeGreaterThan(epoch);
  });

  it('of a document that is too long are an error, or those of its beginning', async () => {
    const long = (words: number) => 'fox '.repeat(words);
    const q = await idsOf('dense', query);
    const room = CONTEXT - q.length - 3;
    const [fits] = await rank('dense', { documents: [long(room)] });
    expect(await rank('dense', { documents: [long(2 * CONTEXT)], truncate_prompt_tokens: -1 })).toEqual([fits]);
    // So long a text is encoded in a thread.
    expect(await rank('dense', { documents: [long(10_000)], truncate_prompt_tokens: -1 })).toEqual([fits]);
    const { status, json } = await ask(servers.dense.gateway, '/v1/rerank', { query, documents: [long(room + 1)] });
    expect([status, json.error.message]).toEqual([400, expect.stringContaining(`context size of ${CONTEXT}`)]);
  });

  it('do not make embeddings of a file that pools by rank', async () => {
    const { status, json } = await ask(servers.dense.gateway, '/v1/embeddings', { input: 'x' });
    expect([status, json.error.message]).toEqual([400, expect.stringContaining('pooled by "rank"')]);
  });
});

it.each(['Q8_0', 'Q4_K', 'Q6_K'] as const)('a reranker in %s scores', async (type) => {
  const file = writeRandomReranker('bert-dense', { hidden: 256, blocks: () => type });
  const server = await startTestGateway(file, OPTIONS);
  try {
    const { status, json } = await ask(server.gateway, '/v1/rerank', { query, documents });
    expect([status, json.results.length]).toEqual([200, documents.length]);
    const scores = json.results.map((one: { relevance_score: number }) => one.relevance_score);
    expect(Math.max(...scores) - Math.min(...scores)).toBeGreaterThan(0.01);
  } finally {
    await server.stop();
  }
});
