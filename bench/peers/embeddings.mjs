/**
 * Embeddings of a model file by a ROCmForge gateway and by llama.cpp (through node-llama-cpp) on this CPU: the largest cosine
 * distance between the two, and how many inputs each embeds in a second, in runs that alternate.
 *
 *   node bench/peers/embeddings.mjs --model M.gguf [--inputs 64] [--words 24] [--threads 2] [--rounds 3] [--json]
 *
 * The file must pool by the last token, as `npx rocmforge synth --shape qwen3-embedding-0.6b --type Q8_0 -o FILE` writes one. One
 * input is also embedded alone and among 16, whose bits must be equal. Run from the repository root after `npm run build`, and
 * `npm ci` here.
 */
import { createHash } from 'node:crypto';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';
import { startGateway } from '../../dist/gateway/main.js';

const { values: options } = parseArgs({
  options: {
    model: { type: 'string' },
    inputs: { type: 'string', default: '64' },
    words: { type: 'string', default: '24' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
  },
});
if (!options.model) {
  console.error('usage: embeddings.mjs --model M.gguf [--inputs 64] [--words 24] [--threads 2] [--rounds 3] [--json]');
  process.exit(2);
}
const [count, words, threads, rounds] = ['inputs', 'words', 'threads', 'rounds'].map((name) => Number(options[name]));
const WORDS = ['the', 'a', 'fox', 'sea', 'and', 'ran', 'to', 'old', 'wind', 'sang', 'long', 'night'];

let state = 1;
const random = (limit) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * limit);
};
const texts = Array.from({ length: count }, () =>
  Array.from({ length: words }, () => WORDS[random(WORDS.length)]).join(' '),
);

const gateway = await startGateway({
  model: options.model,
  modelName: 'm',
  listen: '127.0.0.1:0',
  httpListen: '127.0.0.1:0',
  executor: { spawn: { device: 'host', threads } },
  ...{
    maxSequences: 64,
    maxStepTokens: 512,
    kvMemoryBytes: 0,
    kvCacheType: 'f32',
    pipelineDepth: 2,
    prefixCache: false,
  },
  ...{ stepTimeoutMs: 60_000, maxQueuedRequests: 1024, maxQueuedTokens: 1 << 20, maxRestarts: 1 },
});
const url = `http://127.0.0.1:${gateway.httpServer.port}/v1/embeddings`;
const ours = async (input) => {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', input }),
  });
  if (!response.ok) throw new Error(await response.text());
  const { data, usage } = await response.json();
  return { vectors: data.map(({ embedding }) => embedding), tokens: usage.prompt_tokens };
};

const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error, maxThreads: threads });
const model = await llama.loadModel({ modelPath: options.model });
const context = await model.createEmbeddingContext({ threads, contextSize: 512, batchSize: 512 });
const peers = async (input) => {
  const vectors = [];
  for (const text of input) vectors.push((await context.getEmbeddingFor(text)).vector);
  return vectors;
};

const cosineDistance = (a, b) => {
  const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
  return 1 - dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
};
const { vectors, tokens } = await ours(texts);
const theirs = await peers(texts);
const distances = vectors.map((vector, i) => cosineDistance(vector, theirs[i]));
const hash = (vector) => createHash('sha256').update(Float32Array.from(vector)).digest('hex');
const alone = hash((await ours([texts[0]])).vectors[0]);
const among = hash((await ours(texts.slice(0, 16))).vectors[0]);
const times = { ours: [], llama: [] };
for (let round = 0; round < rounds; round++) {
  let began = performance.now();
  await ours(texts);
  times.ours.push(performance.now() - began);
  began = performance.now();
  await peers(texts);
  times.llama.push(performance.now() - began);
}
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const rate = { ours: (1000 * count) / median(times.ours), llama: (1000 * count) / median(times.llama) };
const result = {
  inputs: count,
  tokens,
  equalAloneAndAmong16: alone === among,
  largestCosineDistance: Math.max(...distances),
  inputsPerSecond: rate,
  ratio: rate.ours / rate.llama,
};
if (options.json) console.log(JSON.stringify(result));
else console.log(result);
await gateway.stop();
await llama.dispose();
process.exit(Math.max(...distances) <= 1e-5 && alone === among ? 0 : 1);
