// Every row of the GPU tables of docs/evidence/gpu-speed.md, part by part, with the seconds that each took. A part whose result is
// there already is left out, so that a run that was cut off continues.
//
//   node bench/gpu/tables.mjs --out FOLDER --models FOLDER [--llama FOLDER] [--sampling FILE] [--only PART,...] [--device cuda]
//
// Needs the built tree with kernels for the GPU, and writes the model files that are not there (39 GB in all). --llama: the folder of
// llama-bench and llama-batched-bench; without it the parts that need them are left out. --sampling: bench/gpu/sampling.cu, compiled.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { benchArguments } from '../arguments.mjs';

const { values: options } = benchArguments(
  import.meta.url,
  {
    options: {
      out: { type: 'string' },
      models: { type: 'string' },
      llama: { type: 'string' },
      sampling: { type: 'string' },
      only: { type: 'string' },
      device: { type: 'string', default: 'cuda' },
    },
  },
  ['out', 'models'],
);
const here = path.dirname(fileURLToPath(import.meta.url));
const cli = path.join(here, '..', '..', 'dist', 'cli', 'main.js');
const run = (program, args) =>
  execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });
const node = (script, ...args) => run(process.execPath, [script, ...args.map(String)]);
const lines = (text) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

/** Shape and type of each model that a table names. */
const MODELS = {
  '8b-f16': ['llama-3.1-8b', 'F16'],
  '8b-q4km': ['llama-3.1-8b', 'Q4_K_M'],
  '8b-q8': ['llama-3.1-8b', 'Q8_0'],
  '1b-q8': ['llama-3.2-1b', 'Q8_0'],
  '1b-f16': ['llama-3.2-1b', 'F16'],
  'qwen3-8b-q4km': ['qwen3-8b', 'Q4_K_M'],
  'gemma3-1b-q4km': ['gemma-3-1b', 'Q4_K_M'],
};
function modelFile(name) {
  const file = path.join(options.models, `${name}.gguf`);
  if (existsSync(file)) return file;
  const [shape, type] = MODELS[name];
  node(cli, 'synth', '--shape', shape, '--type', type, '-o', `${file}.part`);
  renameSync(`${file}.part`, file);
  return file;
}
const oneStream = (name) =>
  JSON.parse(
    node(
      cli,
      'bench',
      '--device',
      options.device,
      '--model',
      modelFile(name),
      '--prompt-tokens',
      32,
      '--tokens',
      128,
      '--repeats',
      3,
      '--json',
    ),
  );
const streams = (name, ...args) =>
  lines(node(path.join(here, 'streams.mjs'), modelFile(name), '--device', options.device, '--repeats', 3, ...args));
const share = (name) => lines(node(path.join(here, 'gateway-share.mjs'), modelFile(name), '--device', options.device));

const STREAMS = '8,32,64,128,256';
function llama(name, program, ...args) {
  return run(path.join(options.llama, program), ['-m', modelFile(name), '-ngl', '99', '-fa', '1', ...args.map(String)]);
}
const llamaBench = (name, ...args) => JSON.parse(llama(name, 'llama-bench', '-r', 3, '-o', 'json', ...args));
/** Three runs: each has one row a number of streams. */
const llamaStreams = (name) =>
  Array.from({ length: 3 }, () =>
    lines(
      llama(
        name,
        'llama-batched-bench',
        '-c',
        65_536,
        '-b',
        2048,
        '-ub',
        512,
        '-npp',
        320,
        '-ntg',
        128,
        '-npl',
        '8,32,64,128',
        '--output-format',
        'jsonl',
      ),
    ),
  );

/** In order: what needs little of the processor first, as other programs may still be built. */
const PARTS = {
  ...(options.sampling && { sampling: () => run(options.sampling, []) }),
  blas: () => JSON.parse(node(cli, 'bench', 'kernels', '--device', options.device, '--blas', '--json')),
  ...Object.fromEntries(Object.keys(MODELS).map((name) => [`one-stream-${name}`, () => oneStream(name)])),
  ...Object.fromEntries(
    ['8b-f16', '8b-q4km'].flatMap((name) => [
      [`streams-${name}`, () => streams(name, '--streams', STREAMS)],
      [`prompts-${name}`, () => streams(name, '--prefill', '512,2048,8192', '--depth', '16384')],
      [`prompts-whole-${name}`, () => streams(name, '--prefill', '2048,8192', '--step-tokens', '2048')],
    ]),
  ),
  ...(options.llama &&
    Object.fromEntries(
      ['8b-f16', '8b-q4km'].flatMap((name) => [
        [`llama-${name}`, () => llamaBench(name, '-p', '512,2048,8192', '-n', 128)],
        [`llama-streams-${name}`, () => llamaStreams(name)],
        [`llama-depth-${name}`, () => llamaBench(name, '-p', 0, '-n', 64, '-d', '16384')],
      ]),
    )),
  'share-8b-f16': () => share('8b-f16'),
  'share-8b-q4km': () => share('8b-q4km'),
  ...(options.llama &&
    Object.fromEntries(
      ['8b-q8', '1b-q8', 'qwen3-8b-q4km'].map((name) => [
        `llama-${name}`,
        () => llamaBench(name, '-p', 512, '-n', 128),
      ]),
    )),
};

for (const program of options.llama ? ['llama-bench', 'llama-batched-bench'] : []) {
  if (existsSync(path.join(options.llama, program))) continue;
  console.error(`tables.mjs: there is no ${program} in ${options.llama}; build llama.cpp, or leave --llama out`);
  process.exit(2);
}
try {
  const demo = path.join(here, '..', '..', 'models', 'demo.gguf');
  const few = ['--prompt-tokens', 8, '--tokens', 8, '--repeats', 1, '--json'];
  node(cli, 'bench', '--device', options.device, '--model', demo, ...few);
} catch {
  console.error(`tables.mjs: the demo model does not run with --device ${options.device}; see above`);
  process.exit(2);
}
mkdirSync(options.out, { recursive: true });
mkdirSync(options.models, { recursive: true });
const only = options.only?.split(',');
let failed = 0;
for (const [name, measure] of Object.entries(PARTS)) {
  if (only !== undefined && !only.includes(name)) continue;
  const file = path.join(options.out, `${name}.json`);
  if (existsSync(file)) continue;
  const began = performance.now();
  try {
    const result = measure();
    writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
  } catch (error) {
    failed += 1;
    console.error(`${name}: ${error.message.split('\n')[0]}`);
  }
  console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
process.exit(failed === 0 ? 0 : 1);
