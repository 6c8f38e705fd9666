// Processor time of gateways for embeddings of a random encoder, of several trees by turns: what else runs on the machine slows all
// of them alike. The executor runs on the CPU, in a process of its own, whose time is not counted.
//   node bench/gateway/embeddings.mjs [--hidden 384] [--tokens 240] [--inputs 64] [--requests 4] [--rounds 5] [--rank] TREE [TREE]
// A tree is a checkout with `npm run build` and, the first one, `npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .`.
// Written for each tree: milliseconds of processor time for 1,000 tokens, and tokens a second; and how many times those of the first.
import { spawn } from 'node:child_process';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { benchArguments } from '../arguments.mjs';

const { values: options, positionals: trees } = benchArguments(import.meta.url, {
  options: {
    hidden: { type: 'string', default: '384' },
    layers: { type: 'string', default: '2' },
    'head-dim': { type: 'string', default: '16' },
    type: { type: 'string', default: 'F32' },
    device: { type: 'string', default: 'host' },
    tokens: { type: 'string', default: '240' },
    inputs: { type: 'string', default: '64' },
    requests: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
    rank: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});
const [hidden, tokens, inputs, requests, rounds] = ['hidden', 'tokens', 'inputs', 'requests', 'rounds'].map((name) =>
  Number(options[name]),
);
const [first] = trees;
if (first === undefined) throw new Error('usage: embeddings.mjs [options] TREE [TREE]');

const built = (file) => import(pathToFileURL(path.resolve(first, 'build/bench', file)).href);
process.chdir(first);
const { writeRandomEncoder } = await built('test/support/random-encoders.js');
const { writeRandomReranker } = await built('test/support/reranker-answers.js');
const { MetricsSnapshot } = await built('src/cli/bench/prometheus.js');
const contextLength = Math.max(256, 2 ** Math.ceil(Math.log2(tokens + 2)));
const shape = { hidden, layers: Number(options.layers), headDim: Number(options['head-dim']), type: options.type };
const model = options.rank
  ? writeRandomReranker('bert-dense', { ...shape, contextLength })
  : writeRandomEncoder('bert', { ...shape, contextLength });

const WORDS = ['the', 'fox', 'sea', 'and', 'ran', 'old', 'wind', 'sang', 'long', 'night', 'to'];
const textOf = (input) => Array.from({ length: tokens }, (_, i) => WORDS[(i * 7 + input * 3) % WORDS.length]).join(' ');
const texts = Array.from({ length: inputs }, (_, input) => textOf(input));
const [route, body] = options.rank
  ? ['/v1/rerank', { query: 'the old sea', documents: texts.map((text) => text.slice(0, -40)) }]
  : ['/v1/embeddings', { input: texts, encoding_format: 'base64' }];

/** Serves a tree. */
async function serve(tree, number) {
  const [http, metrics] = [20_000 + number, 20_100 + number].map((port) => `127.0.0.1:${port + (process.pid % 9000)}`);
  const limits = ['--max-context', String(contextLength), '--max-sequences', '64', '--max-step-tokens', '4096'];
  const device = ['--device', options.device, ...(options.device === 'host' ? ['--threads', '1'] : [])];
  const served = ['serve', '--model', model, ...device, '--no-spare', ...limits];
  const listen = ['--listen', '127.0.0.1:0', '--http-listen', http, '--metrics-listen', metrics];
  const cwd = path.resolve(tree);
  const child = spawn(process.execPath, ['dist/cli/main.js', ...served, ...listen], { cwd, stdio: 'ignore' });
  const ask = async () => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`http://${http}${route}`, { method: 'POST', headers, body: JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    return JSON.parse(text).usage.total_tokens;
  };
  for (let tries = 0; ; tries++) {
    try {
      await ask();
      return { child, ask, metrics };
    } catch (error) {
      if (tries === 100 || child.exitCode !== null) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

/** One round of requests, side by side. */
async function measure({ ask, metrics }) {
  const cpu = async () => (await MetricsSnapshot.read(metrics)).get('process_cpu_seconds_total');
  const [before, from] = [await cpu(), performance.now()];
  const counts = await Promise.all(Array.from({ length: requests }, ask));
  const seconds = (performance.now() - from) / 1000;
  const total = counts.reduce((sum, count) => sum + count, 0);
  return { cpuMs: (1e6 * ((await cpu()) - before)) / total, rate: total / seconds };
}

const servers = [];
try {
  for (const [number, tree] of trees.entries()) servers.push(await serve(tree, number));
  for (const server of servers) await measure(server);
  const measured = trees.map(() => []);
  for (let round = 0; round < rounds; round++)
    for (const [i, server] of servers.entries()) measured[i].push(await measure(server));
  const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
  const of = (key) => measured.map((results) => median(results.map((result) => result[key])));
  const [cpu, rates] = [of('cpuMs'), of('rate')];
  for (const [i, tree] of trees.entries()) {
    const times = `${(cpu[i] / cpu[0]).toFixed(2)} and ${(rates[i] / rates[0]).toFixed(2)} times the first`;
    console.log(`${tree}: ${cpu[i].toFixed(2)} ms for 1,000 tokens, ${Math.round(rates[i])} tokens/s; ${times}`);
  }
} finally {
  for (const { child } of servers) child.kill();
}
