// Effect of draft tokens and constraints on tokens a second, as gRPC clients see them; and that neither changes a
// token: mixed requests, greedy and drawn, with penalties, constrained, of prompts that repeat themselves.
//
//     npm run build && rocmforge synth --shape llama-3.2-1b --type Q8_0 -o build/1b.gguf
//     node bench/gpu/answers.mjs --model build/1b.gguf --device cuda [--tokens 600] [--rounds 2]
//     node bench/gpu/answers.mjs --model build/0.5b.gguf --device host --tokens 48 --pairs 22 [--gateways off]
//
// Ends with code 1 when the tokens of two runs differ. With `--pairs` it is one stream of each kind, two gateways in turn, one with
// draft tokens, or one of them alone, and quartiles of the ratios of neighbours: for a machine whose speed changes meanwhile.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { benchArguments } from '../arguments.mjs';

const { values } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'auto' },
    tokens: { type: 'string', default: '600' },
    rounds: { type: 'string', default: '2' },
    streams: { type: 'string', default: '16' },
    pairs: { type: 'string', default: '0' },
    gateways: { type: 'string', default: 'off,lookup' },
    // Tokens of the prompts come from so many.
    vocabulary: { type: 'string', default: '90300' },
    kinds: { type: 'string', default: 'repeating,drawn,constrained,both' },
  },
});
const maxTokens = Number(values.tokens);
const rounds = Number(values.rounds);
const streams = Number(values.streams);
const vocabulary = Number(values.vocabulary);
/** Small vocabularies begin with bytes. */
const first = Math.min(300, Math.floor(vocabulary / 10));
/** Words and numbers; hardly ever an end. */
const GRAMMAR = 'root ::= "~" | (word | number) " " root\nword ::= [a-z]{1,9}\nnumber ::= [0-9]{1,7}\n';
const constraint = { kind: { $case: 'grammar', value: GRAMMAR } };
const COUNTS = ['spec_decode_num_draft_tokens_total', 'spec_decode_num_accepted_tokens_total', 'mask_misses_total'];
let servers = 0;

async function serve(options) {
  const address = `unix:${path.join(os.tmpdir(), `rocmforge-answers-${process.pid}-${++servers}.sock`)}`;
  const metrics = `127.0.0.1:${20_000 + ((process.pid + servers) % 10_000)}`;
  const fixed = ['--max-context', '2048', '--max-sequences', String(2 * streams), '--device', values.device];
  const listening = ['--listen', address, '--metrics-listen', metrics];
  const child = spawn(
    process.execPath,
    ['dist/cli/main.js', 'serve', '--model', values.model, ...fixed, ...listening, ...options],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  );
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => /serving/.test(String(data)) && resolve());
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
  const client = new RocmForgeClient(address);
  const counter = async (name) => {
    const text = await (await fetch(`http://${metrics}/metrics`)).text();
    return Number(new RegExp(`^rocmforge_${name} (\\d+)`, 'm').exec(text)?.[1]);
  };
  const stop = () =>
    new Promise((resolve) => {
      child.once('exit', resolve);
      client.close();
      child.kill('SIGTERM');
    });
  return { client, counter, stop };
}

const prompt = (seed, count) =>
  Array.from({ length: count }, (_, i) => first + ((seed * 7919 + i * 104_729) % (vocabulary - first)));
const asked = (ids, sampling, rest) => ({
  input: { $case: 'tokens', value: { ids } },
  sampling,
  stop: { maxTokens, ignoreEos: rest?.constraint === undefined },
  ...rest,
});
const repeating = (i) => asked(prompt(i, 30), { temperature: 0, logitBias: { [Math.min(777, vocabulary - 1)]: 200 } });
const drawn = (i) => asked(prompt(i, 30), { temperature: 1, seed: BigInt(i) });
const constrained = (i) => asked(prompt(i, 30), { temperature: 1, seed: BigInt(i) }, { constraint });
function mixed(i) {
  const part = prompt(i, 40);
  const penalty = i % 4 === 3 ? { frequencyPenalty: 0.2 } : {};
  const sampling = i % 2 === 0 ? { temperature: 0 } : { temperature: 0.8, seed: BigInt(i), ...penalty };
  return asked([...part, ...part, ...part], sampling, i % 3 === 2 ? { constraint } : {});
}

async function answers(client, count, make) {
  const responses = await Promise.all(Array.from({ length: count }, (_, i) => client.generate(make(i))));
  return responses.map(({ completions }) => completions[0].tokenIds);
}

async function rate(client, count, make) {
  const began = performance.now();
  const tokens = (await answers(client, count, make)).reduce((sum, ids) => sum + ids.length, 0);
  return Math.round((1000 * tokens) / (performance.now() - began));
}

/** Tokens a second from the first of an answer to its last. */
async function decodeRate(client, request) {
  let [count, first, last] = [0, 0, 0];
  for await (const event of client.generateStream(request)) {
    if (event.$case !== 'chunk') continue;
    last = performance.now();
    if (first === 0) first = last;
    else count += event.value.tokenIds.length;
  }
  return (1000 * count) / (last - first);
}

async function inTurn(pairs) {
  const names = values.gateways.split(',');
  const gateways = {};
  for (const name of names) gateways[name] = await serve(['--speculate', name]);
  const ratios = new Map();
  const compare = (name, a, b) => ratios.set(name, [...(ratios.get(name) ?? []), a / b]);
  const kinds = names.length > 1 ? { drawn, constrained, repeating } : { drawn, constrained };
  for (let i = -1; i < pairs; i++) {
    const rates = {};
    // Forth and back, so that neither is always the later.
    const order = [...Object.keys(kinds)];
    if (i % 2 === 0) order.reverse();
    for (const name of (i >> 1) % 2 === 0 ? names : [...names].reverse()) {
      for (const kind of order) rates[`${kind} ${name}`] = await decodeRate(gateways[name].client, kinds[kind](i + 1));
    }
    // The first of all is slow.
    if (i < 0) continue;
    for (const name of names)
      compare(`constrained of drawn, ${name}`, rates[`constrained ${name}`], rates[`drawn ${name}`]);
    for (const kind of names.length > 1 ? Object.keys(kinds) : [])
      compare(`${kind}, lookup of off`, rates[`${kind} lookup`], rates[`${kind} off`]);
  }
  process.stdout.write(`load ${os.loadavg()[0].toFixed(2)}\n`);
  for (const [name, all] of ratios) {
    const sorted = all.sort((a, b) => a - b);
    const at = (share) => sorted[Math.floor(share * (sorted.length - 1))].toFixed(3);
    process.stdout.write(`${name}: quartiles ${at(0.25)} / ${at(0.5)} / ${at(0.75)} of ${sorted.length}\n`);
  }
  for (const [name, { counter, stop }] of Object.entries(gateways)) {
    const [draftTokens, right, late] = await Promise.all(COUNTS.map(counter));
    process.stdout.write(`${name}: ${draftTokens} draftTokens, ${right} right, ${late} late masks\n`);
    await stop();
  }
}

if (Number(values.pairs) > 0) {
  await inTurn(Number(values.pairs));
  process.exit(0);
}

const hashes = new Set();
const RUNS = {
  plain: ['--speculate', 'off', '--pipeline-depth', '1', '--no-prefix-cache'],
  ...Object.fromEntries(values.gateways.split(',').map((name) => [name, ['--speculate', name]])),
};
const KINDS = {
  repeating,
  drawn,
  constrained,
  both: (i) => (i % 2 === 0 ? drawn(i) : constrained(i)),
};
const counts = [1, streams / 4, streams];
/** Kinds of text that are measured, in the table's order; both: as many streams of each kind. */
const cells = values.kinds
  .split(',')
  .flatMap((kind) => (kind === 'both' ? [[kind, 2 * streams]] : counts.map((count) => [kind, count])));
const heads = [...cells.map(([kind, count]) => `${kind} ${count}`), 'draftTokens', 'right', 'late masks'];
process.stdout.write(`| run | tokens | ${heads.join(' | ')} |\n`);
for (const [name, options] of Object.entries(RUNS)) {
  const { client, counter, stop } = await serve(options);
  const hash = createHash('sha256');
  for (const ids of await answers(client, 24, mixed)) hash.update(Uint32Array.from(ids));
  const told = hash.digest('hex').slice(0, 16);
  hashes.add(told);
  await answers(client, 2, constrained);
  for (let round = 0; name !== 'plain' && round < rounds; round++) {
    const rates = [];
    for (const [kind, count] of cells) rates.push(await rate(client, count, KINDS[kind]));
    process.stdout.write(`| ${[name, told, ...rates, ...(await Promise.all(COUNTS.map(counter)))].join(' | ')} |\n`);
  }
  await stop();
}
process.stdout.write(hashes.size === 1 ? 'the tokens of all runs are the same\n' : 'THE TOKENS DIFFER\n');
process.exit(hashes.size === 1 ? 0 : 1);
