// Two replicas of a model, one a GPU, beside one: tokens a second, and what becomes of streams when an executor is killed.
//
//   rocmforge synth --shape llama-3.2-1b --type Q8_0 -o build/1b.gguf
//   node bench/gpu/replicas.mjs --model build/1b.gguf --device cuda [--gpus 0,1] [--streams 64] [--kills 20]
//   node bench/gpu/replicas.mjs --model models/demo.gguf --device host --streams 16 --tokens 200 --kills 10
//
// Ends with code 1 when a stream under kills has other tokens than undisturbed.
import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { freePort } from '../../tools/free-port.mjs';
import { benchArguments } from '../arguments.mjs';

const { values } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'cuda' },
    gpus: { type: 'string', default: '0,1' },
    streams: { type: 'string', default: '64' },
    prompt: { type: 'string', default: '300' },
    tokens: { type: 'string', default: '600' },
    kills: { type: 'string', default: '20' },
    vocabulary: { type: 'string', default: '1024' },
  },
});
const [streams, promptTokens, maxTokens, kills, vocabulary] = [
  'streams',
  'prompt',
  'tokens',
  'kills',
  'vocabulary',
].map((name) => Number(values[name]));
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const percentile = (numbers, share) =>
  [...numbers].sort((a, b) => a - b)[Math.max(0, Math.ceil(share * numbers.length) - 1)] ?? 0;
let servers = 0;

async function serve(count) {
  const address = `unix:${path.join(os.tmpdir(), `rocmforge-replicas-${process.pid}-${++servers}.sock`)}`;
  const metrics = `127.0.0.1:${await freePort()}`;
  const gpus = values.gpus.split(',').slice(0, count).join(',');
  const where = values.device === 'host' ? ['--replicas', String(count)] : count > 1 ? ['--gpus', gpus] : [];
  const fixed = [
    '--max-context',
    String(2 * promptTokens + maxTokens),
    '--max-sequences',
    String(streams),
    '--max-restarts',
    '1000',
  ];
  const many = [
    '--max-streams-per-connection',
    '1000',
    '--device',
    values.device,
    '--listen',
    address,
    '--metrics-listen',
    metrics,
  ];
  const child = spawn(
    process.execPath,
    ['dist/cli/main.js', 'serve', '--model', values.model, ...fixed, ...many, ...where],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'error' },
    },
  );
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => /serving/.test(String(data)) && resolve());
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
  const client = new RocmForgeClient(address);
  return {
    client,
    /** Sequences that were computed again since the gateway started. */
    replayed: async () => {
      const text = await (await fetch(`http://${metrics}/metrics`)).text();
      return Number(/^rocmforge_requests_replayed_total (\d+)/m.exec(text)?.[1]);
    },
    /** The executors' process ids. */
    pids: () => executorsOf(child.pid),
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', resolve);
        client.close();
        child.kill('SIGTERM');
      }),
  };
}

const request = (i, count, length) => ({
  input: {
    $case: 'tokens',
    value: { ids: Array.from({ length }, (_, j) => 300 + ((i * 7919 + j * 104_729) % (vocabulary - 300))) },
  },
  sampling: i % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: BigInt(i) },
  stop: { maxTokens: count, ignoreEos: true },
});

/** Runs streams at once; when each token of each came, and which it was. */
async function offer({ client }, count, tokens = maxTokens, length = promptTokens, first = 0) {
  const runs = Array.from({ length: count }, () => ({ ids: [], at: [] }));
  const all = Promise.all(
    runs.map(async (run, i) => {
      for await (const event of client.generateStream(request(first + i, tokens, length))) {
        if (event.$case !== 'chunk') continue;
        const now = performance.now();
        for (const id of event.value.tokenIds) {
          run.ids.push(id);
          run.at.push(now);
        }
      }
    }),
  );
  return { runs, all };
}

async function rate(server, count) {
  const began = performance.now();
  const { runs, all } = await offer(server, count);
  await all;
  const tokens = runs.reduce((sum, { ids }) => sum + ids.length, 0);
  return (1000 * tokens) / (performance.now() - began);
}

const one = await serve(1);
await rate(one, Math.min(4, streams));
const alone = [];
for (let round = 0; round < 2; round++) alone.push(await rate(one, streams));
// Rows a second of prompts: half of the streams' worth, of one token each, whose beginnings nobody has computed.
const began = performance.now();
await (await offer(one, streams / 2, 1, 2 * promptTokens, streams)).all;
const prefillRate = (1000 * streams * promptTokens) / (performance.now() - began);
await one.stop();

const two = await serve(2);
await rate(two, 4);
const together = [];
for (let round = 0; round < 2; round++) together.push(await rate(two, 2 * streams));
const most = (numbers) => Math.max(...numbers);
process.stdout.write(
  `one replica, ${streams} streams: ${alone.map(Math.round)} tokens/s; two, ${2 * streams}: ${together.map(Math.round)}, ` +
    `${(most(together) / most(alone)).toFixed(2)} times\nprefill of one: ${Math.round(prefillRate)} rows/s\n`,
);

const undisturbed = await offer(two, streams);
await undisturbed.all;
// One kill at a third of the streams' way, some times: what those who were there wait for, and what the others do. Prompts are
// new each time: those of the round before would go to the one that survived it.
for (let round = 0; round < 3; round++) {
  const before = await two.replayed();
  const { runs, all } = await offer(two, streams, maxTokens, promptTokens, 1000 * (round + 1));
  while (runs.some(({ ids }) => ids.length < maxTokens / 3)) await wait(1);
  const pids = two.pids();
  const at = performance.now();
  process.kill(pids[round % pids.length], 'SIGKILL');
  const known = runs.map(({ ids }) => promptTokens + ids.length);
  await all;
  // Tokens that were on their way still come: what counts is the longest wait that ends after the kill.
  const gaps = runs.map((run) => Math.max(...run.at.map((time, k) => (time > at && k > 0 ? time - run.at[k - 1] : 0))));
  const order = gaps.map((gap, i) => ({ gap, i })).sort((a, b) => b.gap - a.gap);
  const lost = (await two.replayed()) - before;
  const resumed = order.slice(0, lost);
  const R = (1000 * resumed.reduce((sum, { i }) => sum + known[i], 0)) / prefillRate;
  const own = order.slice(lost).flatMap(({ i }) => {
    const times = runs[i].at.filter((time) => time > at && time < at + 2 * R + 500);
    return times.slice(1).map((time, j) => time - times[j]);
  });
  const stepMs = (1000 * 512) / prefillRate;
  process.stdout.write(
    `a kill: ${lost} of ${streams} streams lost, R ${R.toFixed(0)} ms; resumed after ${percentile(
      resumed.map(({ gap }) => gap),
      0.5,
    ).toFixed(0)} ms (median), ` +
      `${(resumed[0]?.gap ?? 0).toFixed(0)} (last); survivors' gap p99 ${percentile(own, 0.99).toFixed(1)} ms, a full step ${stepMs.toFixed(1)} ms\n`,
  );
  while (two.pids().length < 2) await wait(20);
  await wait(3000);
}

const { runs, all } = await offer(two, streams);
let isOver = false;
all.then(() => {
  isOver = true;
});
let killed = 0;
let random = 1;
const dead = new Set();
while (killed < kills && !isOver) {
  random = (Math.imul(random, 1103515245) + 12345) >>> 0;
  await wait(50 + ((random >>> 8) % 300));
  const living = two.pids().filter((pid) => !dead.has(pid));
  if (living.length === 0) continue;
  const pid = living[(random >>> 20) % living.length];
  if (isOver) break;
  dead.add(pid);
  process.kill(pid, 'SIGKILL');
  killed += 1;
}
await all;
const equal = runs.filter(({ ids }, i) => ids.join() === undisturbed.runs[i].ids.join()).length;
process.stdout.write(`${killed} kills of either: ${equal} of ${streams} streams equal\n`);
await two.stop();
process.exit(equal === streams ? 0 : 1);
