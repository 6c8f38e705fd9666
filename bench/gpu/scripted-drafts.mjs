// Tokens a second by how many draft tokens of the prediction block are right, which the bench decides: each is right with a given
// probability if those before it are. The block computes them all the same; then the bench replaces them by what a run without draft
// tokens has sampled there, or by another token. The random weights of `rocmforge synth` predict next to nothing right themselves.
//
//     npm run build && node dist/cli/main.js synth --shape qwen3.5-27b-mtp --type Q4_K_M -o build/27b.gguf
//     node bench/gpu/scripted-drafts.mjs --model build/27b.gguf --device cuda [--streams 1,64] [--tokens 240] [--rounds 3]
//
// Ends with code 1 when the tokens of two runs differ.
import { fork } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { startGateway } from '../../dist/gateway/main.js';
import { Engine } from '../../dist/gateway/replica/engine.js';
import { Sequence } from '../../dist/gateway/request/sequence.js';
import { benchArguments } from '../arguments.mjs';

process.env.ROCMFORGE_LOG_LEVEL ??= 'silent';

const { values } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'auto' },
    tokens: { type: 'string', default: '240' },
    rounds: { type: 'string', default: '3' },
    streams: { type: 'string', default: '1,64' },
    acceptance: { type: 'string', default: '0,40,60,80' },
    // Tokens of the prompts come from so many.
    vocabulary: { type: 'string', default: '90300' },
    // Internal: the process that holds the clients, of this address.
    client: { type: 'string' },
  },
});
const [maxTokens, rounds, vocabulary] = ['tokens', 'rounds', 'vocabulary'].map((name) => Number(values[name]));
const [streams, acceptances] = ['streams', 'acceptance'].map((name) => values[name].split(',').map(Number));
const PROMPT = 30;
const SCALE = 1 << 16;

/** Sampled tokens of the run without draft tokens, by the first tokens of the prompt. */
const sampled = new Map();
const keyOf = (ids) => ids.slice(0, 3).join();
/** Percent of draft tokens that are right; undefined: those of the block. */
let acceptance;
const expect = Sequence.prototype.expect;
Sequence.prototype.expect = function (tokens) {
  const { promptIds } = this.options;
  const answer = sampled.get(keyOf(promptIds));
  if (acceptance === undefined || answer === undefined) return expect.call(this, tokens);
  const next = this.known - promptIds.length;
  const scripted = tokens.map((_, i) => {
    const right = answer[next + i] ?? 0;
    return randomInt(SCALE) < (acceptance / 100) * SCALE ? right : right + 1;
  });
  return expect.call(this, scripted);
};

/** Milliseconds of the steps with draft tokens: on the device without the block, of the block, and until the next was sent. */
let times = [];
const complete = Engine.prototype.complete;
Engine.prototype.complete = function (scheduler, response) {
  const { submittedAt } = this;
  const slices = scheduler.oldestStep?.slices ?? [];
  const result = complete.call(this, scheduler, response);
  if (slices.some(({ proposed }) => proposed > 0)) {
    const { deviceUs, predictUs } = response;
    times.push([(deviceUs - predictUs) / 1000, predictUs / 1000, performance.now() - submittedAt]);
  }
  return result;
};
const mean = (list) => (list.length === 0 ? '' : (list.reduce((sum, one) => sum + one, 0) / list.length).toFixed(2));

async function serve(speculate) {
  const listen = `unix:${path.join(os.tmpdir(), `rocmforge-scripted-${process.pid}.sock`)}`;
  const gateway = await startGateway({
    model: values.model,
    listen,
    speculate,
    executor: { spawn: { device: values.device } },
    ...{ maxContext: 1024, maxSequences: 2 * Math.max(...streams), maxStepTokens: 0, kvMemoryBytes: 0 },
  });
  // A process of its own, as clients are.
  const client = fork(process.argv[1], [...process.argv.slice(2), '--client', listen], {
    serialization: 'advanced',
  });
  const stop = async () => {
    client.kill();
    await gateway.stop();
  };
  return { client, stop };
}

const promptOf = (seed) =>
  Array.from({ length: PROMPT }, (_, i) => 300 + ((seed * 7919 + i * 104_729) % (vocabulary - 300)));
const requestOf = (seed) => ({
  input: { $case: 'tokens', value: { ids: promptOf(seed) } },
  sampling: { temperature: 1, seed: BigInt(seed) },
  stop: { maxTokens, ignoreEos: true },
});

/** One stream: its tokens, and when the first and the last came. */
async function stream(client, request) {
  const tokens = [];
  let [first, last, usage] = [0, 0, undefined];
  for await (const event of client.generateStream(request)) {
    if (event.$case === 'complete') usage = event.value.usage;
    if (event.$case !== 'chunk') continue;
    last = performance.now();
    if (first === 0) first = last;
    tokens.push(...event.value.tokenIds);
  }
  return { tokens, first, last, usage };
}

async function runClient(listen) {
  const client = new RocmForgeClient(listen);
  process.on('message', async (seeds) => {
    process.send(await Promise.all(seeds.map((seed) => stream(client, requestOf(seed)))));
  });
  await once(process, 'disconnect');
  process.exit(0);
}
if (values.client !== undefined) await runClient(values.client);

let differ = 0;
/** Tokens a second of so many streams between the first token of all and the last, and shares of their draft tokens. */
async function measure(client, count, seed) {
  const seeds = Array.from({ length: count }, (_, i) => seed + i);
  client.send(seeds);
  const [responses] = await once(client, 'message');
  responses.forEach(({ tokens }, i) => {
    const key = keyOf(promptOf(seeds[i]));
    const before = sampled.get(key) ?? tokens;
    sampled.set(key, before);
    if (before.join() !== tokens.join()) differ += 1;
  });
  const [began, ended] = [
    Math.min(...responses.map(({ first }) => first)),
    Math.max(...responses.map(({ last }) => last)),
  ];
  const sum = (of) => responses.reduce((total, { usage }) => total + (usage?.[of] ?? 0), 0);
  return {
    rate: (1000 * (count * maxTokens - count)) / (ended - began),
    proposed: sum('predictedTokens'),
    right: sum('acceptedPredictedTokens'),
  };
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const plain = new Map();
process.stdout.write(
  '| draft tokens | streams | tokens/s | of plain | draft tokens made | right | rows ms | block ms | step ms |\n',
);
for (const percent of [undefined, ...acceptances]) {
  acceptance = percent;
  const { client, stop } = await serve(percent === undefined ? 'off' : 'mtp');
  for (const count of streams) {
    const runs = [];
    // The first captures graphs and measures what steps cost.
    for (let round = -1; round < rounds; round++) {
      const run = await measure(client, count, 1000 * count + 100 * (round + 1));
      if (round >= 0) runs.push(run);
      else times = [];
    }
    const rate = median(runs.map((run) => run.rate));
    if (percent === undefined) plain.set(count, rate);
    const [proposed, right] = ['proposed', 'right'].map((of) => runs.reduce((total, run) => total + run[of], 0));
    const parts = [0, 1, 2].map((part) => mean(times.map((one) => one[part])));
    const name = percent === undefined ? 'none' : `${percent} % right`;
    const ratio = (rate / plain.get(count)).toFixed(3);
    process.stdout.write(`| ${[name, count, rate.toFixed(1), ratio, proposed, right, ...parts].join(' | ')} |\n`);
  }
  await stop();
}
process.stdout.write(differ === 0 ? 'the tokens of all runs are the same\n' : `${differ} RESPONSES DIFFER\n`);
process.exit(differ === 0 ? 0 : 1);
