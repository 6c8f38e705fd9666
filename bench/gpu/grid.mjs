// The grid of docs/evidence/gpu-speed.md: shapes × prompts, depths and numbers of streams, next to llama.cpp on the same card. A part
// whose result is there already is left out, so that a run that was cut off continues.
//
//   node bench/gpu/grid.mjs --out FOLDER --models FOLDER [--llama FOLDER] [--only SHAPE,...] [--device cuda] [--seconds N]
//   node bench/gpu/grid.mjs --out FOLDER --table
//
// Needs the built tree with kernels for the GPU. --llama: where llama-bench and llama-batched-bench are. --seconds: no part begins
// later. The files take 105 GB. --free: they are removed once measured, and the largest takes 28 GB. --table: only what the folder has, as a table. --families: family-shapes.js as
// compiled; its shapes are measured in place of these, a prompt of 512 tokens and decode behind it.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { benchArguments } from '../arguments.mjs';

const SHAPES = {
  'llama-3.1-8b': ['Q4_K_M', '512,8192,32000'],
  'qwen3-8b': ['Q4_K_M', '512,8192,32000'],
  'gemma-2-2b': ['Q4_K_M', '512,7900'],
  'gemma-3-4b': ['Q4_K_M', '512,8192,32000'],
  'phi-4-mini': ['Q4_K_M', '512,8192,32000'],
  'glm-4-9b-0414': ['Q4_K_M', '512,8192,32000'],
  'olmo-2-7b': ['Q4_K_M', '512,3700'],
  'smollm3-3b': ['Q4_K_M', '512,8192,32000'],
  'qwen3.5-0.8b': ['Q4_K_M', '512,8192,32000'],
  'gpt-oss-20b': ['MXFP4_MOE', '512,8192,32000'],
  'qwen3-30b-a3b': ['Q4_K_M', '512,8192,32000'],
  'qwen3.5-27b': ['Q4_K_M', '512,8192,32000'],
  'mixtral-8x7b': ['Q4_K_M', '512,8192,32000'],
};
const { values: options } = benchArguments(
  import.meta.url,
  {
    options: {
      out: { type: 'string' },
      models: { type: 'string' },
      llama: { type: 'string' },
      only: { type: 'string' },
      device: { type: 'string', default: 'cuda' },
      seconds: { type: 'string', default: '100000' },
      repeats: { type: 'string', default: '3' },
      prefill: { type: 'string', default: '512,2048,8192,32000' },
      streams: { type: 'string', default: '8,64' },
      depths: { type: 'string' },
      tokens: { type: 'string', default: '64' },
      free: { type: 'boolean', default: false },
      table: { type: 'boolean', default: false },
      families: { type: 'string' },
    },
  },
  ['out'],
);
const here = path.dirname(fileURLToPath(import.meta.url));
const cli = path.join(here, '..', '..', 'dist', 'cli', 'main.js');
const began = performance.now();
const secondsSince = (start) => (performance.now() - start) / 1000;
const run = (program, args) =>
  execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] });
const node = (script, ...args) => run(process.execPath, [script, ...args.map(String)]);
const lines = (text) =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));
const { tokens, repeats, prefill, streams, families } = options;
if (families !== undefined) {
  for (const shape of Object.keys(SHAPES)) delete SHAPES[shape];
  for (const shape of node(families, '--list').trim().split('\n')) SHAPES[shape] = ['Q4_K_M', '512'];
}

function modelFile(shape) {
  const file = path.join(options.models, `${shape}.gguf`);
  // Another process may be writing it.
  while (existsSync(`${file}.part`)) execFileSync('sleep', ['0.2']);
  if (!existsSync(file)) {
    const writer = families === undefined ? [cli, 'synth'] : [families];
    node(...writer, '--shape', shape, '--type', SHAPES[shape][0], '-o', `${file}.part`);
    renameSync(`${file}.part`, file);
  }
  return file;
}
/** Prompts no longer than the shape's context. */
const prompts = (shape) => {
  const longest = Math.max(...SHAPES[shape][1].split(',').map(Number));
  const lengths = prefill.split(',').map((length) => Math.min(Number(length), Math.max(longest, 512)));
  return [...new Set(lengths)].join();
};
const depthsOf = (shape) => options.depths ?? SHAPES[shape][1];
const llama = (shape, program, ...args) =>
  run(path.join(options.llama, program), ['-m', modelFile(shape), '-ngl', '99', '-fa', '1', ...args.map(String)]);

/** Parts of one shape, in order. */
const ALL_PARTS = {
  ours: (shape) =>
    lines(
      node(
        path.join(here, 'streams.mjs'),
        ...[modelFile(shape), '--device', options.device, '--repeats', repeats, '--tokens', tokens],
        ...['--prefill', prompts(shape), '--depth', depthsOf(shape), '--profile'],
      ),
    ),
  'ours-streams': (shape) =>
    lines(
      node(
        path.join(here, 'streams.mjs'),
        ...[modelFile(shape), '--device', options.device, '--repeats', repeats, '--tokens', tokens],
        ...['--streams', streams, '--prompts', '320:320', '--profile'],
      ),
    ),
  ...(options.llama && {
    'llama-prefill': (shape) =>
      JSON.parse(llama(shape, 'llama-bench', '-r', repeats, '-o', 'json', '-n', 0, '-p', prompts(shape))),
    'llama-depth': (shape) =>
      JSON.parse(
        llama(shape, 'llama-bench', '-r', repeats, '-o', 'json', '-p', 0, '-n', tokens, '-d', depthsOf(shape)),
      ),
    'llama-streams': (shape) =>
      Array.from({ length: Number(repeats) }, () =>
        lines(
          llama(
            shape,
            'llama-batched-bench',
            ...['-c', 32_768, '-b', 2048, '-ub', 512, '-npp', 320, '-ntg', tokens, '-npl', streams],
            ...['--output-format', 'jsonl'],
          ),
        ),
      ),
  }),
};

const PARTS = Object.fromEntries(
  Object.entries(ALL_PARTS).filter(([part]) => families === undefined || !part.endsWith('streams')),
);

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const load = (shape, part) => {
  const file = path.join(options.out, `${shape}.${part}.json`);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : [];
};
/** Rates of one shape by cell: ours and llama.cpp's. */
function cellsOf(shape) {
  const cells = new Map();
  const put = (name, who, rate) => cells.set(name, { ...cells.get(name), [who]: rate });
  for (const { kind, tokens: length, depth, count, rate } of [...load(shape, 'ours'), ...load(shape, 'ours-streams')]) {
    if (kind === 'prefill') put(`prefill ${length}`, 'ours', rate);
    if (kind === 'depth') put(`decode behind ${depth}`, 'ours', rate);
    if (kind === 'streams') put(`${count} streams`, 'ours', rate);
  }
  for (const { n_prompt: length, avg_ts: rate } of load(shape, 'llama-prefill'))
    put(`prefill ${length}`, 'llama', rate);
  for (const { n_depth: depth, avg_ts: rate } of load(shape, 'llama-depth'))
    put(`decode behind ${depth}`, 'llama', rate);
  const rounds = load(shape, 'llama-streams');
  for (const [i, { pl }] of (rounds[0] ?? []).entries())
    put(`${pl} streams`, 'llama', median(rounds.map((round) => round[i].speed_tg)));
  return cells;
}
function table() {
  const rounded = (rate) => (rate === undefined ? '' : Math.round(rate).toLocaleString('en-US'));
  console.log('| shape | cell | ROCmForge, tok/s | llama.cpp | ratio |\n| --- | --- | --- | --- | --- |');
  for (const shape of Object.keys(SHAPES)) {
    for (const [cell, { ours, llama: theirs }] of cellsOf(shape)) {
      const ratio = ours && theirs ? (ours / theirs).toFixed(2) : '';
      console.log(`| ${shape} | ${cell} | ${rounded(ours)} | ${rounded(theirs)} | ${ratio} |`);
    }
  }
}

if (options.table) {
  table();
  process.exit(0);
}
mkdirSync(options.out, { recursive: true });
mkdirSync(options.models, { recursive: true });
let failed = 0;
for (const shape of options.only?.split(',') ?? Object.keys(SHAPES)) {
  for (const [part, measure] of Object.entries(PARTS)) {
    const file = path.join(options.out, `${shape}.${part}.json`);
    if (existsSync(file)) continue;
    if (secondsSince(began) > Number(options.seconds)) process.exit(2);
    const start = performance.now();
    try {
      writeFileSync(file, `${JSON.stringify(measure(shape), null, 1)}\n`);
    } catch (error) {
      failed += 1;
      console.error(`${shape} ${part}: ${error.message.split('\n')[0]}`);
    }
    console.log(`${shape} ${part}: ${secondsSince(start).toFixed(1)} s`);
  }
  if (options.free) rmSync(path.join(options.models, `${shape}.gguf`), { force: true });
}
process.exit(failed === 0 ? 0 : 1);
