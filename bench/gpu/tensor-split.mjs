// A model on one GPU and split into shards over several: one hash of logits in every way its rows may come, how far they are
// from one GPU's, how many tokens a second, what a sum over ranks takes, and what becomes of a step of which one rank fails,
// or whose process is stopped or killed. One line of JSON a part in OUT/results.jsonl; a part that is there is left out, so
// that a run which was cut off goes on.
//
//   node bench/gpu/tensor-split.mjs --out FOLDER --models FOLDER [--gpus 0,1] [--device cuda] [--only PART,...] [--threads N]
//
// Needs the built tree with kernels for the GPUs. Models that are not there are written, with random weights; of the 70B shape
// eight layers, which are repeated.
import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { SHAPES } from '../../dist/cli/synth/shapes.js';
import { synth } from '../../dist/cli/synth/synth.js';
import { logitsHashes, promptOf } from '../../dist/cli/verify/invariance.js';
import { StepDriver } from '../../dist/cli/verify/step-driver.js';
import { DeviceScope } from '../../dist/executor/device/device.js';
import { sumRanks, WORDS_A_BARRIER } from '../../dist/executor/kernels/index.js';
import { LaunchPlanRecorder } from '../../dist/executor/kernels/launch-plan.js';
import { openDevices } from '../../dist/executor/load/open-device.js';
import { benchArguments } from '../arguments.mjs';
import { loadRepeated } from './repeated-model.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: {
    out: { type: 'string' },
    models: { type: 'string' },
    gpus: { type: 'string', default: '0,1' },
    device: { type: 'string', default: 'cuda' },
    only: { type: 'string' },
    threads: { type: 'string' },
    // Options of a part of this script, which runs in a process of its own.
    work: { type: 'string' },
    model: { type: 'string' },
    layers: { type: 'string', default: '0' },
  },
});
const gpus = options.gpus.split(',').map(Number);
const threads = options.threads && Number(options.threads);
const limits = { kvCacheType: 'f16', kvMemoryBytes: 0, fingerprint: '' };
const open = (numbers) => openDevices({ kind: options.device, gpus: numbers, ...(threads && { threads }) });

/** @param over the GPUs; one: it is not split */
async function load(over, sizes = { maxContext: 1024, maxSequences: 64, maxStepTokens: 2048 }) {
  const devices = open(over);
  const split = over.length > 1 ? { split: 'tensor' } : {};
  const how = { path: options.model, ...limits, ...sizes, ...split };
  const model = await loadRepeated(devices, how, Number(options.layers));
  return { devices, model, last: model.pipeline.last.device };
}
const say = (line) => console.log(JSON.stringify(line));

/** Jobs that run in a process of their own, by name. */
const WORK = {
  /** One hash, however rows are cut and whoever is beside them. */
  hash: async () => {
    const { model, last } = await load(gpus);
    for (const [chunk, others] of [
      [300, 0],
      [1, 0],
      [17, 0],
      [100, 0],
      [300, 16],
      [100, 16],
      [300, 30],
    ]) {
      say({ chunk, others, hashes: await logitsHashes(last, model, chunk, others) });
    }
  },
  /** Distance of logits from one GPU's: root mean square over that of the logits, and whether the likeliest is the same. */
  near: async () => {
    const rows = [];
    for (const over of [gpus.slice(0, 1), gpus]) {
      const { model, last } = await load(over, { maxContext: 256, maxSequences: 4, maxStepTokens: 256 });
      const driver = new StepDriver(last, model, 1n);
      const sequence = promptOf(1, 136, model.forward.model.vocabularySize);
      const own = [...(await driver.step([[0, 0, 128, true]], [[0, sequence]]))].map((row) => row.slice());
      for (let i = 0; i < 8; i++) own.push((await driver.step([[0, 128 + i, 1, true]]))[0].slice());
      rows.push(own);
      model.release();
    }
    const largest = (row) => row.reduce((best, value, i) => (value > row[best] ? i : best), 0);
    const [expected, actual] = rows;
    const relative = expected.map((row, i) => {
      const difference = row.reduce((sum, value, at) => sum + (value - actual[i][at]) ** 2, 0);
      return Math.sqrt(difference / row.reduce((sum, value) => sum + value ** 2, 0));
    });
    const same = expected.filter((row, i) => largest(row) === largest(actual[i])).length;
    say({ relative: Math.max(...relative), sameLikeliest: `${same} of ${expected.length}` });
  },
  /** Duration of a sum over all ranks, in a graph of sums alone, and whether it is right. */
  sums: async () => {
    const devices = open(gpus);
    for (const device of devices)
      for (const other of devices) if (other !== device) device.native.canReach(other.native);
    for (const columns of [4096, 8192]) {
      for (const rows of [1, 2, 4, 8, 16, 64, 256, 512, 2048]) say(await timeSums(devices, rows, columns));
    }
  },
  /** A rank whose step is not queued: the others' end, and the steps after it are right. */
  fault: async () => {
    const { devices, model, last } = await load(gpus);
    const undisturbed = await logitsHashes(last, model, 300);
    const [first] = devices;
    const { native } = first;
    for (let round = 0; round < 3; round++) {
      let planted = false;
      const failing = new Proxy(native, {
        get: (target, name) => {
          if (name !== 'run') return target[name].bind(target);
          return (step) => {
            if (planted) return target.run(step);
            planted = true;
            return Promise.reject(new Error('planted'));
          };
        },
      });
      Object.assign(first, { native: failing });
      const began = performance.now();
      const error = await logitsHashes(last, model, 300).then(
        () => 'none',
        (caught) => caught.message,
      );
      const milliseconds = Number((performance.now() - began).toFixed(1));
      Object.assign(first, { native });
      const after = await logitsHashes(last, model, 300);
      say({ round, error, milliseconds, isRightAfter: JSON.stringify(after) === JSON.stringify(undisturbed) });
    }
  },
  /** Decodes without an end, a line each fifty hashes: for whoever stops and kills it. */
  endless: async () => {
    const { model, last } = await load(gpus);
    for (let i = 0; ; i++) say({ i, hashes: await logitsHashes(last, model, 17) });
  },
};

async function timeSums(devices, rows, columns) {
  const REPEATS = 64;
  const memory = devices.map((device) => new DeviceScope(device));
  const of = (rank) => Float32Array.from({ length: rows * columns }, (_, i) => Math.fround(Math.sin(i * (rank + 1))));
  const parts = memory.map((scope, rank) => [0, 1].map(() => scope.upload(of(rank))));
  const words = memory.map((scope) => scope.upload(new Int32Array(REPEATS * WORDS_A_BARRIER)));
  const passes = memory.map((scope) => scope.upload(Int32Array.of(0)));
  const results = memory.map((scope) => scope.allocate('f32', rows * columns));
  const ended = memory.map((scope) => scope.upload(Int32Array.of(-(2 ** 30))));
  const plans = devices.map((device, rank) => {
    const recorder = new LaunchPlanRecorder(device, 0);
    for (let barrier = 0; barrier < REPEATS; barrier++) {
      const values = {
        ...Object.fromEntries(parts.map((own, i) => [`p${i}`, own[barrier % 2]])),
        ...Object.fromEntries(words.map((own, i) => [`w${i}`, own])),
        ...{ pass: passes[rank], ended: ended[rank], y: results[rank], columns, accumulate: 0 },
        ...{ rank, barrier, patience_ms: 10_000 },
      };
      recorder.launch(sumRanks(devices.length), values, { rows, barriers: REPEATS });
    }
    const plan = memory[rank].plan(recorder.finish());
    device.native.capture(plan, new Int32Array(0));
    return plan;
  });
  const times = [];
  for (let pass = 1; pass <= 12; pass++) {
    const us = await Promise.all(
      devices.map((device, rank) =>
        device.native.run({
          ...{ plan: plans[rank], counts: new Int32Array(0), recurring: true },
          input: new Uint8Array(Int32Array.of(pass).buffer),
          ...{ deviceInput: passes[rank].address, output: new Uint8Array(0), deviceOutput: 0 },
        }),
      ),
    );
    // The first waits for the others to be queued.
    if (pass > 2) times.push(Math.min(...us) / REPEATS);
  }
  const numbers = devices.map((_, rank) => of(rank));
  const expected = numbers[0].map((value, i) =>
    numbers.slice(1).reduce((sum, other) => Math.fround(sum + other[i]), value),
  );
  const wrong = results.map((y, rank) => {
    const actual = devices[rank].readF32(y);
    return actual.reduce((count, value, i) => count + Number(value !== expected[i]), 0);
  });
  for (const scope of memory) scope.release();
  const us = times.sort((a, b) => a - b)[Math.floor(times.length / 2)];
  return { rows, columns, us: Number(us.toFixed(2)), wrong };
}

if (options.work !== undefined) {
  await WORK[options.work]();
  process.exit(0);
}

const MODELS = {
  '1b-q4km': { shape: 'llama-3.2-1b', type: 'Q4_K_M' },
  '1b-f16': { shape: 'llama-3.2-1b', type: 'F16' },
  '8b-q4km': { shape: 'llama-3.1-8b', type: 'Q4_K_M' },
  // 42.5 GB on a GPU, 6 GB on a disk.
  '70b-q4km': { shape: 'llama-3.1-70b', type: 'Q4_K_M', layers: 8 },
};
const here = fileURLToPath(import.meta.url);
const results = path.join(options.out, 'results.jsonl');
mkdirSync(options.out, { recursive: true });
mkdirSync(options.models, { recursive: true });
const lines = () =>
  existsSync(results) ? readFileSync(results, 'utf8').trim().split('\n').filter(Boolean).map(JSON.parse) : [];
const known = lines();
const wanted = options.only?.split(',');

function modelFile(name) {
  const file = path.join(options.models, `${name}.gguf`);
  if (existsSync(file)) return file;
  const { shape, type, layers } = MODELS[name];
  synth({ shape: { ...SHAPES[shape], ...(layers && { layers }) }, type, output: `${file}.part` });
  renameSync(`${file}.part`, file);
  return file;
}
const repeated = (name) => (MODELS[name].layers ? ['--layers', String(SHAPES[MODELS[name].shape].layers)] : []);
const common = ['--device', options.device, ...(threads ? ['--threads', String(threads)] : [])];
const node = (script, ...args) => {
  const text = execFileSync(process.execPath, [script, ...args, ...common], { encoding: 'utf8', maxBuffer: 1 << 26 });
  return text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map(JSON.parse);
};
const work = (name, model) => [
  ...['--work', name, '--gpus', options.gpus],
  ...(model === undefined ? [] : ['--model', modelFile(model), ...repeated(model)]),
];

/** Does a part unless it is there, and keeps what it came to. */
async function part(name, does) {
  if (wanted !== undefined && !wanted.some((one) => name.startsWith(one))) return;
  if (known.some((one) => one.part === name)) return;
  const began = Date.now();
  let result;
  try {
    result = { lines: await does() };
  } catch (error) {
    result = { error: String(error.stderr || error.message).slice(-1200) };
    console.error(`${name}: ${result.error}`);
  }
  const line = { part: name, ...result, seconds: Math.round((Date.now() - began) / 1000) };
  // Failed cases are tried again.
  if (result.error === undefined) appendFileSync(results, `${JSON.stringify(line)}\n`);
  console.log(JSON.stringify(line));
}

/** A process that decodes, stopped for a while, then killed. */
async function stopped(model, stopMs) {
  const child = spawn(process.execPath, [here, ...work('endless', model), ...common], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const seen = [];
  let text = '';
  let wake = () => undefined;
  child.stdout.on('data', (data) => {
    text += data;
    const complete = text.split('\n');
    text = complete.pop();
    for (const line of complete) if (line.startsWith('{')) seen.push(JSON.stringify(JSON.parse(line).hashes));
    wake();
  });
  const ended = new Promise((resolve) => child.on('exit', (code, signal) => resolve({ code, signal })));
  const until = async (count) => {
    while (seen.length < count && child.exitCode === null && child.signalCode === null) {
      await Promise.race([new Promise((resolve) => (wake = resolve)), ended]);
    }
  };
  await until(2);
  child.kill('SIGSTOP');
  await new Promise((resolve) => setTimeout(resolve, stopMs));
  child.kill('SIGCONT');
  const before = seen.length;
  await until(before + 2);
  const goesOn = seen.length >= before + 2;
  const began = performance.now();
  child.kill('SIGKILL');
  const end = await ended;
  const goneMs = Math.round(performance.now() - began);
  return [{ stopMs, goesOn, hashes: seen.length, different: new Set(seen).size, goneMs, ...end }];
}

await part('sums', () => node(here, ...work('sums')));
for (const model of ['1b-f16', '1b-q4km', '8b-q4km', '70b-q4km']) {
  await part(`hash ${model}`, () => node(here, ...work('hash', model)));
}
for (const model of ['1b-f16', '8b-q4km', '70b-q4km'])
  await part(`near ${model}`, () => node(here, ...work('near', model)));
const streams = path.join(path.dirname(here), 'streams.mjs');
for (const model of ['70b-q4km', '8b-q4km', '1b-q4km']) {
  for (const over of [gpus.slice(0, 1), gpus]) {
    const how = over.length === 1 ? 'one' : 'tensor';
    const args = [...(over.length > 1 ? ['--gpus', over.join(), '--split', 'tensor'] : []), ...repeated(model)];
    const sizes = model === '70b-q4km' ? ['--streams', '1,8,32', '--depth', '4096'] : ['--streams', '1,8,64'];
    await part(`rate ${model} ${how}`, () =>
      node(streams, modelFile(model), '--prefill', '512,2048', ...sizes, '--tokens', '64', ...args),
    );
  }
}
await part('fault 1b-q4km', () => node(here, ...work('fault', '1b-q4km')));
for (const stopMs of [500, 3000]) await part(`stop 1b-q4km ${stopMs}`, () => stopped('1b-q4km', stopMs));
await part('hash 1b-q4km after kills', () => node(here, ...work('hash', '1b-q4km')));

for (const { part: name, lines: own } of lines()) {
  if (!name.startsWith('hash')) continue;
  const different = new Set(own.map(({ hashes }) => JSON.stringify(hashes)));
  console.log(`${name}: ${different.size} hash of logits in ${own.length} ways`);
}
