import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { EmbedRequest, EmbedResponse } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { EmbedRequest as Request } from '../../../../src/shared/generated/rocmforge/v1/inference.js';
import { logLevel, logSink, setLogLevel } from '../../../../src/shared/log.js';
import type { LogLevel } from '../../../../src/shared/log-levels.js';
import { readFloat64 } from '../../../support/float64-tensors.js';
import { startTestGateway, type TestGateway } from '../../../support/gateway.js';
import { ask } from '../../../support/http.js';
import { writeRandomFamily } from '../../../support/random-model.js';

const OPTIONS = { modelName: 'embedder', httpListen: '127.0.0.1:0', idleUnloadMs: 3_600_000 };
const file = writeRandomFamily('qwen3', {
  metadata: { 'qwen3.pooling_type': 3, 'tokenizer.ggml.add_eos_token': true },
});

let server: TestGateway;
let ranker: TestGateway;
let classifier: TestGateway;
beforeAll(async () => {
  server = await startTestGateway(file, OPTIONS);
  ranker = await startTestGateway(
    writeRandomFamily('qwen3', { metadata: { 'tokenizer.chat_template.rerank': 'Q: {query} D: {document} A:' } }),
    OPTIONS,
  );
  classifier = await startTestGateway(
    writeRandomFamily('qwen3', {
      metadata: { 'qwen3.pooling_type': 4, 'tokenizer.chat_template.rerank': '{query} / {document}' },
      tensors: { 'cls.output.weight': { dims: [64, 2] } },
    }),
    OPTIONS,
  );
});
afterAll(async () => {
  for (const one of [server, ranker, classifier]) await one?.stop();
});

const texts = Array.from({ length: 16 }, (_, i) => `the old fox ${'ran and sang '.repeat(i + 1)}${i}`);
const embeddings = async (body: object, gateway = server.gateway) =>
  ask(gateway, '/v1/embeddings', { model: 'embedder', ...body });
const embed = (message: Partial<EmbedRequest>) =>
  new Promise<EmbedResponse>((resolve, reject) =>
    server.client.embed(Request.fromPartial(message), (error, response) => (error ? reject(error) : resolve(response))),
  );
const hash = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex');
const textInput = (text: string) => ({
  input: { $case: 'text' as const, value: { text, parseSpecial: false, addSpecial: true } },
});

describe('embeddings', () => {
  it('have the id of the HTTP request in the audit log', async () => {
    const before = logLevel() as LogLevel;
    const lines: string[] = [];
    setLogLevel('info');
    const spy = vi.spyOn(logSink, 'write').mockImplementation((line) => void lines.push(String(line)));
    try {
      const body = { model: 'embedder', input: 'the fox' };
      const { status } = await ask(server.gateway, '/v1/embeddings', body, { headers: { 'x-request-id': 'client-1' } });
      expect(status).toBe(200);
      await expect
        .poll(() => lines.map((line) => JSON.parse(line)).find(({ msg }) => msg === 'generation ended'))
        .toMatchObject({ httpRequestId: 'client-1' });
    } finally {
      spy.mockRestore();
      setLogLevel(before);
    }
  });

  it('have the priority of vLLM’s HTTP server, where lower runs first', async () => {
    expect((await embeddings({ input: 'the fox', priority: 1 })).status).toBe(200);
    const { status, json } = await embeddings({ input: 'the fox', priority: -1 });
    expect([status, json.error.param]).toEqual([400, 'priority']);
  });

  it('of ids and texts in turn are those of all of their ids', async () => {
    const idsOf = async (content: string, add_special = false) =>
      (await ask(server.gateway, '/tokenize', { content, add_special })).json.tokens as number[];
    const mixed = [12, 34, ' the fox', 56];
    const ids = [12, 34, ...(await idsOf(' the fox')), 56];
    const { json } = await embeddings({ input: [mixed, ids, [...ids]] });
    expect(json.data[0].embedding).toEqual(json.data[1].embedding);
    expect((await embeddings({ input: mixed })).json.data).toMatchObject([{ embedding: json.data[0].embedding }]);
    expect(json.usage.prompt_tokens).toBe(3 * ids.length);
    for (const input of [
      [12, null],
      [12, {}],
      [-1, 'a'],
    ])
      expect((await embeddings({ input })).status).toBe(400);
    const long = await embeddings({ input: 'the fox '.repeat(4000) });
    expect([long.status, long.json.error.code]).toEqual([400, 'context_length_exceeded']);
    expect(long.json.error.message).toContain('too large');
  });

  it('have the hidden state that the model’s logits are made of', async () => {
    const text = 'the fox ran to the sea';
    const { json: tokenized } = await ask(server.gateway, '/tokenize', { content: text, add_special: true });
    const { json } = await embeddings({ input: [tokenized.tokens], normalize: false });
    const hidden: number[] = json.data[0].embedding;
    const output = readFloat64(file).tensor('output.weight');
    const logits = Array.from({ length: output.length / hidden.length }, (_, token) =>
      hidden.reduce((sum, value, i) => sum + (output[token * hidden.length + i] as number) * value, 0),
    );
    const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
    const { json: completed } = await ask(server.gateway, '/completion', {
      ...{ prompt: tokenized.tokens, n_predict: 1, n_probs: 5, temperature: 0 },
    });
    for (const { id, logprob } of completed.completion_probabilities[0].top_logprobs) {
      expect(logits[id]! - total).toBeCloseTo(logprob, 4);
    }
  });

  it('are the same bits alone and among others, on each API', async () => {
    const { json: together } = await embeddings({ input: texts });
    expect(together.data.map(({ index }: { index: number }) => index)).toEqual(texts.map((_, i) => i));
    const all = await embed({ inputs: texts.map(textInput) });
    for (const [i, text] of texts.entries()) {
      const { json: alone } = await embeddings({ input: text });
      const { embedding } = alone.data[0];
      expect(hash(embedding), `text ${i}`).toBe(hash(together.data[i].embedding));
      expect(Math.hypot(...embedding)).toBeCloseTo(1, 5);
      const { values } = all.embeddings[i]!;
      expect(hash(values.map((value) => Number(value.toPrecision(9))))).toBe(hash(embedding));
    }
    expect(new Set(together.data.map(({ embedding }: { embedding: number[] }) => hash(embedding))).size).toBe(16);
    expect(all.usage?.promptTokens).toBe(together.usage.prompt_tokens);
    expect(together.usage.prompt_tokens).toBe(all.embeddings.reduce((sum, { promptTokens }) => sum + promptTokens, 0));
  });

  it('do not change while others generate', async () => {
    const before = (await embeddings({ input: texts })).text;
    const stories = [1, 2, 3].map((seed) =>
      ask(server.gateway, '/v1/completions', { prompt: 'the night', max_tokens: 100, seed, ignore_eos: true }),
    );
    const during = await Promise.all([1, 2, 3].map(() => embeddings({ input: texts })));
    for (const { text } of during) expect(text).toBe(before);
    for (const { status } of await Promise.all(stories)) expect(status).toBe(200);
  });

  it('survive the end of the executor with the same bits', async () => {
    const before = (await embeddings({ input: texts })).text;
    const pid = server.gateway.executorPid() as number;
    const running = Promise.all(Array.from({ length: 8 }, () => embeddings({ input: texts })));
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.kill(pid, 'SIGKILL');
    for (const { text } of await running) expect(text).toBe(before);
    await expect.poll(() => server.gateway.executorEpoch()).toBeGreaterThan(1);
  });

  it('come as numbers or base64, and cut to dimensions', async () => {
    const { json: plain } = await embeddings({ input: 'the sea' });
    const { json: packed } = await embeddings({ input: 'the sea', encoding_format: 'base64' });
    const bytes = Buffer.from(packed.data[0].embedding, 'base64');
    const floats = new Float32Array(Uint8Array.from(bytes).buffer);
    expect(floats).toEqual(Float32Array.from(plain.data[0].embedding));
    const { json: cut } = await embeddings({ input: 'the sea', dimensions: 8 });
    const first: number[] = plain.data[0].embedding.slice(0, 8);
    const norm = Math.hypot(...first);
    expect(cut.data[0].embedding).toHaveLength(8);
    for (const [i, value] of cut.data[0].embedding.entries()) expect(value).toBeCloseTo(first[i]! / norm, 5);
  });

  it('end with the token that ends texts, also where a long input is cut', async () => {
    const { json } = await ask(server.gateway, '/tokenize', { content: 'the sea', add_special: true });
    expect(json.tokens.at(-1)).toBe(2);
    const long = 'the sea '.repeat(2000);
    const refused = await embeddings({ input: ['the sea', long] });
    expect([refused.status, refused.json.error.message]).toEqual([
      400,
      expect.stringMatching(/^input\[1\] is too large: it has \d+ (tokens|characters), which exceeds/),
    ]);
    const cut = await embeddings({ input: long, truncate_prompt_tokens: -1 });
    expect(cut.json.usage.prompt_tokens).toBe(511);
    const ollama = await ask(server.gateway, '/api/embed', { model: 'embedder', input: [long, 'the sea'] });
    expect(ollama.json.embeddings).toHaveLength(2);
    expect(ollama.json.prompt_eval_count).toBe(511 + json.tokens.length);
  });

  it('are served on Ollama’s, llama.cpp’s and Connect’s paths', async () => {
    const { json: plain } = await embeddings({ input: 'the sea' });
    const expected = plain.data[0].embedding;
    const { json: ollama } = await ask(server.gateway, '/api/embed', {
      model: 'embedder',
      input: 'the sea',
      keep_alive: '5m',
    });
    expect(ollama).toMatchObject({ model: 'embedder', embeddings: [expected] });
    expect((await ask(server.gateway, '/api/embed', { model: 'embedder', input: [] })).status).toBe(400);
    const { json: before } = await ask(server.gateway, '/api/embeddings', { model: 'embedder', prompt: 'the sea' });
    expect(before.embedding).toHaveLength(64);
    const { json: llama } = await ask(server.gateway, '/embedding', { content: 'the sea' });
    expect(llama).toEqual([{ index: 0, embedding: [expected] }]);
    const { json: connect } = await ask(server.gateway, '/rocmforge.v1.InferenceService/Embed', {
      inputs: [{ text: { text: 'the sea' } }],
    });
    expect(connect.embeddings[0].values.map((value: number) => Number(value.toPrecision(9)))).toEqual(expected);
  });

  it.each([
    ['no input', {}, /^input is missing/],
    ['an empty list', { input: [] }, /^input is empty/],
    ['something else', { input: [{}] }, /^input is neither a text nor/],
    ['foreign tokens', { input: [[100_000]] }, /^token id 100000 is not below/],
    ['invalid Unicode', { input: ['a', 'b', '\ud800'] }, /^input\[2\]: text has a lone surrogate/],
    ['too many dimensions', { input: 'x', dimensions: 65 }, /^dimensions is 65; the model’s embeddings have 64/],
    ['too many inputs', { input: Array(2049).fill('x') }, /^input has 2049 entries, more than 2048/],
    [
      'another format',
      { input: 'x', encoding_format: 'int8' },
      /^encoding_format is "int8"; it must be "float" or "base64"/,
    ],
  ])('are rejected for %s', async (_, body, message) => {
    const { status, json } = await embeddings(body);
    expect([status, json.error.message]).toEqual([400, expect.stringMatching(message)]);
  });

  it('are lists, as Text Embeddings Inference has them, also at the address itself', async () => {
    const { json } = await embeddings({ input: ['the fox', 'the sea'] });
    const vectors = json.data.map(({ embedding }: { embedding: number[] }) => embedding);
    for (const path of ['/embed', '/']) {
      expect((await ask(server.gateway, path, { inputs: ['the fox', 'the sea'] })).json).toEqual(vectors);
      expect((await ask(server.gateway, path, { inputs: 'the fox', truncate: false })).json).toEqual([vectors[0]]);
    }
    const plain = await ask(server.gateway, '/embed', { inputs: 'the fox', normalize: false });
    const { json: expected } = await embeddings({ input: 'the fox', normalize: false });
    expect(plain.json).toEqual([expected.data[0].embedding]);
    const long = 'the fox '.repeat(4000);
    const refused = await ask(server.gateway, '/embed', { inputs: long });
    expect([refused.status, refused.json]).toEqual([
      400,
      expect.objectContaining({ error_type: 'Validation', reason: 'PROMPT_TOO_LONG' }),
    ]);
    expect((await ask(server.gateway, '/embed', { inputs: long, truncate: true })).status).toBe(200);
    const left = await ask(server.gateway, '/embed', { inputs: long, truncate: true, truncation_direction: 'Left' });
    expect([left.status, left.json.param]).toEqual([400, 'truncation_direction']);
    const named = await ask(server.gateway, '/embed', { inputs: 'the fox', prompt_name: 'query' });
    expect([named.status, named.json.reason]).toEqual([400, 'NOT_IMPLEMENTED']);
  });

  it('are rejected of a model that pools otherwise', async () => {
    const { status, json } = await embeddings({ input: 'x' }, classifier.gateway);
    expect([status, json.error.message]).toEqual([400, expect.stringContaining('pooled by "rank"')]);
  });
});

describe('rankings', () => {
  const documents = ['the sea', 'a long night', 'the old wind sang'];

  it('are the cosines of embeddings for a model that only embeds', async () => {
    const { json } = await embeddings({ input: ['the sea', ...documents] });
    const [query, ...others] = json.data.map(({ embedding }: { embedding: number[] }) => embedding);
    const cosines = others.map((other: number[]) => other.reduce((sum, x, i) => sum + x * query[i], 0));
    const { json: scored } = await ask(server.gateway, '/v1/score', { text_1: 'the sea', text_2: documents });
    for (const [i, { score }] of scored.data.entries()) expect(score).toBeCloseTo(cosines[i], 5);
    expect(scored.data[0].score).toBeCloseTo(1, 5);
    const { json: ranked } = await ask(server.gateway, '/v1/rerank', { query: 'the sea', documents, top_n: 2 });
    expect(ranked.results).toHaveLength(2);
    expect(ranked.results[0]).toMatchObject({ index: 0, document: { text: 'the sea' } });
  });

  it('are a list for texts, as Text Embeddings Inference has it', async () => {
    const { json: ranked } = await ask(server.gateway, '/v1/rerank', { query: 'the sea', documents });
    const scores = ranked.results.map(({ index, relevance_score: score }: Record<string, number>) => ({
      index,
      score,
    }));
    const given = { query: 'the sea', texts: documents };
    expect((await ask(server.gateway, '/rerank', given)).json).toEqual(scores);
    const { json } = await ask(server.gateway, '/rerank', { ...given, return_text: true, top_n: 1 });
    expect(json).toEqual([{ ...scores[0], text: 'the sea' }]);
  });

  it('are the share of “yes” for a model that ranks', async () => {
    const { status, json } = await ask(ranker.gateway, '/v1/rerank', { query: 'the sea', documents });
    expect([status, json.error?.message]).toEqual([400, expect.stringContaining('"yes" is not one of its tokens')]);
  });

  it('are made by the file’s classifier where it has one', async () => {
    // Its rows are zero: neither class is likelier.
    const { json } = await ask(classifier.gateway, '/v1/rerank', { query: 'the sea', documents });
    expect(
      json.results.map(({ index, relevance_score }: { index: number; relevance_score: number }) => [
        index,
        relevance_score,
      ]),
    ).toEqual([
      [0, 0.5],
      [1, 0.5],
      [2, 0.5],
    ]);
    const { json: scored } = await ask(classifier.gateway, '/v1/score', { text_1: documents, text_2: documents });
    expect(scored.data).toHaveLength(3);
    expect((await ask(classifier.gateway, '/v1/score', { text_1: ['a', 'b'], text_2: documents })).status).toBe(400);
  });
});
