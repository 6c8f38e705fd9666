// Time until the first token of a conversation's second turn, with the prefix cache and without; and the extra time of the first
// turn, whose prompt is cut for a snapshot if the model is recurrent. Two gateways by turns, each idle while the
// other is asked.
//
//     npm run build && rocmforge synth --shape qwen3.5-0.8b --type Q4_K_M -o build/qwen35.gguf
//     node bench/gateway/second-turn.mjs --model build/qwen35.gguf [--device host] [--history 1000] [--rounds 5] [--unload]
//
// With --unload the model is unloaded between the two turns, and the first of the gateways has --kv-host-memory. Times are those
// after the load, which both wait for: since the answer to a request of one token that comes with the turn. With it: the last line.
//
// Ends with code 1 when the two give different tokens.
import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { benchArguments } from '../arguments.mjs';

const { values } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'host' },
    history: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '5' },
    unload: { type: 'boolean', default: false },
  },
});
const ANSWER = 50;
const QUESTION = 30;
const history = Number(values.history);
let servers = 0;

async function serve(options) {
  const address = `unix:${path.join(os.tmpdir(), `rocmforge-turns-${process.pid}-${++servers}.sock`)}`;
  const fixed = ['--max-context', String(history + 256), '--max-sequences', '4', '--device', values.device];
  const child = spawn(
    process.execPath,
    ['dist/cli/main.js', 'serve', '--model', values.model, ...fixed, '--listen', address, ...options],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => /serving/.test(String(data)) && resolve());
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
  const client = new RocmForgeClient(address);
  const stop = () =>
    new Promise((resolve) => {
      child.once('exit', resolve);
      client.close();
      child.kill('SIGTERM');
    });
  const unloaded = async () => {
    while (executorsOf(child.pid).length > 0) await new Promise((resolve) => setTimeout(resolve, 20));
  };
  return { client, unloaded, stop };
}

const prompt = (seed, count) => Array.from({ length: count }, (_, i) => 300 + ((seed * 7919 + i * 104_729) % 90_000));

const request = (ids, maxTokens) => ({
  input: { $case: 'tokens', value: { ids } },
  sampling: { temperature: 0 },
  stop: { maxTokens, ignoreEos: true },
});

/** @returns when a request of one token has been answered: the model is loaded */
async function loadedAt({ client }, began) {
  for await (const _ of client.generateStream(request([300], 1)));
  return performance.now() - began;
}

/** @returns the answer's tokens, milliseconds to the first of them, and tokens found in the cache */
async function turn(gateway, ids) {
  const began = performance.now();
  const loading = values.unload ? loadedAt(gateway, began) : 0;
  let first;
  let cached = 0;
  const tokens = [];
  for await (const event of gateway.client.generateStream(request(ids, ANSWER))) {
    if (event.$case === 'complete') cached = event.value.usage?.cachedTokens ?? 0;
    if (event.$case !== 'chunk') continue;
    if (event.value.tokenIds.length > 0) first ??= performance.now() - began;
    tokens.push(...event.value.tokenIds);
  }
  return { tokens, ms: first - (await loading), withLoadMs: first, cached };
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
const idle = ['--idle-unload', '0.2', '--no-spare'];
const gateways = values.unload
  ? { cached: await serve([...idle, '--kv-host-memory', '16G']), plain: await serve(idle) }
  : { cached: await serve([]), plain: await serve(['--no-prefix-cache']) };
const withLoad = { cached: [], plain: [] };
const waits = { first: { cached: [], plain: [] }, second: { cached: [], plain: [] } };
let found = 0;
let differing = 0;
try {
  for (let round = 0; round <= Number(values.rounds); round++) {
    const said = prompt(round, history - ANSWER);
    const answers = [];
    // The gateway that is called first changes from round to round; the round before the first warms both up.
    for (const name of round % 2 === 0 ? ['cached', 'plain'] : ['plain', 'cached']) {
      const first = await turn(gateways[name], said);
      if (values.unload) await gateways[name].unloaded();
      const second = await turn(gateways[name], [...said, ...first.tokens, ...prompt(round + 1000, QUESTION)]);
      answers.push(JSON.stringify([first.tokens, second.tokens]));
      if (name === 'cached') found = second.cached;
      if (round === 0) continue;
      waits.first[name].push(first.ms);
      waits.second[name].push(second.ms);
      withLoad[name].push(second.withLoadMs);
    }
    differing += Number(answers[0] !== answers[1]);
  }
} finally {
  await Promise.all([gateways.cached.stop(), gateways.plain.stop()]);
}
for (const [name, { cached, plain }] of Object.entries(waits)) {
  const ratios = cached.map((ms, i) => ms / plain[i]);
  console.log(
    `${name} turn: ${median(cached).toFixed(0)} ms to the first token, ${median(plain).toFixed(0)} ms without the cache; ratio ` +
      `${median(ratios).toFixed(3)} (${Math.min(...ratios).toFixed(3)} to ${Math.max(...ratios).toFixed(3)}), ${cached.length} rounds`,
  );
}
if (values.unload) {
  const [cached, plain] = [withLoad.cached, withLoad.plain].map((ms) => median(ms).toFixed(0));
  console.log(`second turn with the load: ${cached} ms, ${plain} ms without --kv-host-memory`);
}
console.log(`${found} of ${history + QUESTION} tokens found; rounds with other tokens: ${differing}`);
process.exit(differing === 0 ? 0 : 1);
