// A model on one GPU and split between layers over several: one hash of logits, and how many tokens a second of a prompt and of
// streams that generate, with copies between peers and through the host's memory. One line of JSON a part in OUT/results.jsonl;
// a part that is there is left out, so that a run which was cut off goes on.
//
//   node bench/gpu/split.mjs --out FOLDER --models FOLDER [--gpus 0,1] [--device cuda] [--only PART,...] [--threads N]
//
// Needs the built tree with kernels for the GPUs. Models that are not there are written, with random weights.
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { logitsHashes } from '../../dist/cli/verify/invariance.js';
import { loadModel } from '../../dist/executor/load/loaded-model.js';
import { openDevices } from '../../dist/executor/load/open-device.js';
import { benchArguments } from '../arguments.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: {
    out: { type: 'string' },
    models: { type: 'string' },
    gpus: { type: 'string', default: '0,1' },
    device: { type: 'string', default: 'cuda' },
    only: { type: 'string' },
    threads: { type: 'string' },
    // Options of a part of this script, which runs in a process of its own.
    hash: { type: 'string' },
    how: { type: 'string' },
    shares: { type: 'string', default: '' },
  },
});
const gpus = options.gpus.split(',').map(Number);
const threads = options.threads && Number(options.threads);
/** On one GPU, over all by copies between peers, and over all through pinned memory. */
const HOW = ['one', 'peer', 'host'];

if (options.hash !== undefined) {
  await hashOf(options.hash, options.how, options.shares.split(',').filter(Boolean).map(Number));
  process.exit(0);
}

const MODELS = {
  '1b-q4km': ['llama-3.2-1b', 'Q4_K_M'],
  '1b-f16': ['llama-3.2-1b', 'F16'],
  '8b-q4km': ['llama-3.1-8b', 'Q4_K_M'],
};
const here = fileURLToPath(import.meta.url);
const root = path.join(path.dirname(here), '..', '..');
const results = path.join(options.out, 'results.jsonl');
mkdirSync(options.out, { recursive: true });
mkdirSync(options.models, { recursive: true });
const known = existsSync(results)
  ? readFileSync(results, 'utf8').trim().split('\n').filter(Boolean).map(JSON.parse)
  : [];
const wanted = options.only?.split(',');

function modelFile(name) {
  const file = path.join(options.models, `${name}.gguf`);
  if (existsSync(file)) return file;
  const [shape, type] = MODELS[name];
  const cli = path.join(root, 'dist', 'cli', 'main.js');
  execFileSync(process.execPath, [cli, 'synth', '--shape', shape, '--type', type, '-o', `${file}.part`]);
  renameSync(`${file}.part`, file);
  return file;
}
const node = (script, ...args) => {
  const common = ['--device', options.device, ...(threads ? ['--threads', String(threads)] : [])];
  const text = execFileSync(process.execPath, [script, ...args, ...common], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map(JSON.parse);
};

/** Does a part unless it is there, and keeps what it came to. */
function part(name, work) {
  if (wanted !== undefined && !wanted.some((one) => name.startsWith(one))) return;
  if (known.some((one) => one.part === name)) return;
  const began = Date.now();
  let result;
  try {
    result = { lines: work() };
  } catch (error) {
    result = { error: String(error.stderr ?? error.message).slice(-800) };
    console.error(`${name}: ${result.error}`);
  }
  const line = { part: name, ...result, seconds: Math.round((Date.now() - began) / 1000) };
  // Failed cases are tried again.
  if (result.error === undefined) appendFileSync(results, `${JSON.stringify(line)}\n`);
  console.log(JSON.stringify(line));
}

for (const model of ['1b-q4km', '1b-f16', '8b-q4km']) {
  for (const [how, shares] of [...HOW.map((one) => [one, '']), ['peer', '3,1']]) {
    part(`hash ${model} ${how}${shares && ` ${shares}`}`, () => {
      const args = ['--hash', modelFile(model), '--how', how, '--gpus', options.gpus];
      return node(here, ...args, ...(shares && gpus.length === 2 ? ['--shares', shares] : []));
    });
  }
}
const streams = path.join(path.dirname(here), 'streams.mjs');
for (const model of ['8b-q4km', '1b-f16']) {
  for (const how of HOW) {
    const over = how === 'one' ? [] : ['--gpus', options.gpus, ...(how === 'host' ? ['--through-host'] : [])];
    part(`rate ${model} ${how} 512`, () =>
      node(streams, modelFile(model), '--prefill', '512,8192', '--streams', '1,8,64,256', '--tokens', '64', ...over),
    );
    part(`rate ${model} ${how} 2048`, () =>
      node(streams, modelFile(model), '--prefill', '2048,16384', '--step-tokens', '2048', ...over),
    );
  }
}
const all = readFileSync(results, 'utf8').trim().split('\n').map(JSON.parse);
for (const model of Object.keys(MODELS)) {
  const hashes = all.filter(({ part: name }) => name.startsWith(`hash ${model}`)).flatMap(({ lines }) => lines);
  if (hashes.length === 0) continue;
  const different = new Set(hashes.map(({ hashes: each }) => JSON.stringify(each)));
  console.log(`${model}: ${different.size} hash of logits in ${hashes.length} ways`);
}

/** Prints the hashes of a sequence's logits: alone, in chunks, and among others. */
async function hashOf(file, how, shares) {
  const devices = openDevices({ kind: options.device, gpus: how === 'one' ? [] : gpus, ...(threads && { threads }) });
  const limits = { maxContext: 1024, maxSequences: 64, maxStepTokens: 2048, kvMemoryBytes: 0, fingerprint: '' };
  const own = { throughHost: how === 'host', ...(shares.length > 0 && { shares }) };
  const model = await loadModel(devices, { path: file, kvCacheType: 'f16', ...limits, ...own }, () => undefined);
  const last = devices.at(-1);
  for (const [chunk, others] of [
    [300, 0],
    [1, 0],
    [17, 0],
    [300, 16],
    [100, 16],
  ]) {
    const hashes = await logitsHashes(last, model, chunk, others);
    console.log(JSON.stringify({ chunk, others, hashes }));
  }
  const layers = model.pipeline.stages.map(({ graph }) => graph.residualBranches.length);
  console.error(`${devices.map(({ description }) => description).join(' + ')}: layers ${layers.join(', ')}`);
}
