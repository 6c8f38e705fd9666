// Runs whole models on emulated GPUs and writes what came of it into build/docs/verification.md.
//
//   npm run verify:emulator [-- --target gfx1100,gfx942] [--check stories,q4_k,q8_0,prefill]
//   npm run verify:emulator -- --files FOLDER [--jobs 2]    each GGUF file of a folder, such as those of
//                                                           bench/gpu/family-files.ts: one hash of logits, however they are batched
//
// Files whose rows are there already, made with the same code objects, are left out.
// The executor of the product drives the HIP library of the tests (test/doubles/hip), which sends each launch of a code
// object to an instruction set emulator. Needs TINYGRAD_DIR (see tools/emulator/run_hsaco.py), the built code objects and
// double, and for all checks but `prefill` ../shared/data. One process a target and check: a driver is loaded once.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { codeObjects, doneBefore, write } from './verification-page.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const shared = path.join(root, '..', 'shared', 'data');
const fromDist = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href);

const PREFILL_TOKENS = 16;
/** More rows than attention splits: from here on they share the keys and values of their sequence. */
const TILED_TOKENS = 144;
const GREEDY_TOKENS = 8;
/** Tokens of a prompt that is run whole, in chunks, and beside others; three more are decoded behind it. */
const FAMILY_PROMPT = { length: 12, chunk: 5, others: 1 };

/** The kernels on matrix units that a prefill must have launched. */
const MATRIX_KERNELS = [
  /^matmul_tile_\w+_f16$/,
  // One launch of both, from 65 or 129 rows on: few rows are faster apart.
  /^gate_up_swiglu_tile_f16$/,
  /^attention_tile_split_f16_d64$/,
  /^attention_tile_f16_d64$/,
];

/** Each resolves to what is written: { model, tokens, difference, bound, passed, note }. */
const CHECKS = {
  stories: () => greedyTokens('stories260K-f32', { count: GREEDY_TOKENS, kvCacheType: 'f32', bound: 1e-4 }),
  // Bounds of test/executor/support/parity-bounds.ts.
  q4_k: () => oneStep('tiny-llama-q4_k_m', { mean: 0.09, bound: 0.45 }),
  q8_0: () => oneStep('tiny-qwen2-q8_0', { mean: 0.045, bound: 0.25 }),
  prefill: () => prefill(),
};

const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'gfx1100,gfx942' },
    check: { type: 'string', default: Object.keys(CHECKS).join() },
    files: { type: 'string' },
    jobs: { type: 'string', default: '1' },
    // One check in this process, whose environment has the double.
    child: { type: 'string' },
  },
});

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`verify-emulator: ${message}`);
  process.exit(1);
}

/** A model on the emulated device, and what drives it. */
async function load(file, { maxContext, maxStepTokens, kvCacheType, kind = 'hip', maxSequences = 1 }) {
  const [{ openDevice }, { loadModel }, { StepDriver }] = await Promise.all([
    fromDist('executor/load/open-device.js'),
    fromDist('executor/load/loaded-model.js'),
    fromDist('cli/verify/step-driver.js'),
  ]);
  const device = openDevice({ kind });
  const limits = { maxContext, maxSequences, maxStepTokens, kvMemoryBytes: 0, stateSnapshots: 0 };
  const model = await loadModel(device, { path: file, kvCacheType, fingerprint: '', ...limits }, () => undefined);
  // Each generation begins with empty slots.
  return { device, model, driver: (generation = 1n) => new StepDriver(device, model, generation) };
}

async function parityCase(name, choose) {
  const { readParityCases } = await fromDist('cli/verify/teacher-forced.js');
  return choose(readParityCases(path.join(shared, 'parity', `${name}.json`)));
}

/** The first tokens of llama.cpp's first case, each from the one before. */
async function greedyTokens(name, { count, kvCacheType, bound }) {
  const { differences } = await fromDist('cli/verify/teacher-forced.js');
  const { prompt_tokens, tokens, top } = await parityCase(name, ([first]) => first);
  const file = path.join(shared, 'models', `${name}.gguf`);
  const length = prompt_tokens.length;
  const loaded = await load(file, { maxContext: 64, maxStepTokens: length, kvCacheType });
  const { device, model } = loaded;
  const driver = loaded.driver();
  const generated = [];
  let difference = 0;
  for (let i = 0; i < count; i++) {
    const [token] =
      i === 0
        ? await driver.sample([[0, 0, length, true]], [[0, Uint32Array.from(prompt_tokens)]])
        : await driver.sample([[0, length + i - 1, 1, true]]);
    generated.push(token);
    const logits = device.readF32(model.forward.logits, model.forward.model.vocabularySize);
    difference = Math.max(difference, ...differences(logits, top[i]));
  }
  const same = generated.filter((token, i) => token === tokens[i]).length;
  const done = `${length} of a prompt, then ${same} of ${count} as llama.cpp’s`;
  return { model: name, tokens: done, difference, bound, passed: same === count && difference <= bound };
}

/** The prompt of the shortest case, and the log probabilities of llama.cpp's five likeliest tokens after it. */
async function oneStep(name, { mean, bound }) {
  const { teacherForced } = await fromDist('cli/verify/teacher-forced.js');
  const shortest = await parityCase(name, (cases) =>
    cases.reduce((a, b) => (b.prompt_tokens.length < a.prompt_tokens.length ? b : a)),
  );
  const { prompt_tokens, tokens, top } = shortest;
  const one = { ...shortest, tokens: tokens.slice(0, 1), top: top.slice(0, 1) };
  const result = await teacherForced(path.join(shared, 'models', `${name}.gguf`), [one], { kind: 'hip' });
  const likeliest = result.sameToken === 1 ? 'the likeliest token is llama.cpp’s' : 'another likeliest token';
  return {
    model: name,
    tokens: `${prompt_tokens.length} of a prompt; ${likeliest}`,
    difference: result.max,
    bound,
    passed: result.steps === 1 && result.mean <= mean && result.max <= bound,
  };
}

/**
 * Prompts of f16 weights through the matrix units, beside the host, which multiplies in f32.
 *
 * The bound is besideHost's of src/cli/verify/verify: inputs rounded to f16 are 2⁻¹² off in the root mean square, 2 · layers such
 * errors add to the residual stream independently, and four times that is accepted.
 */
async function prefill() {
  const [{ synth }, { promptOf }] = await Promise.all([
    fromDist('cli/synth/synth.js'),
    fromDist('cli/verify/invariance.js'),
  ]);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
  const file = path.join(folder, 'tiny-f16.gguf');
  synth({ shape: 'tiny', type: 'F16', output: file, random: seededBytes(1) });
  const limits = { maxContext: 160, maxStepTokens: TILED_TOKENS, kvCacheType: 'f16' };
  const [onHost, onDevice] = [await load(file, { ...limits, kind: 'host' }), await load(file, limits)];
  rmSync(folder, { recursive: true });
  const { layers, vocabularySize } = onHost.model.forward.model;
  const bound = 4 * 2 ** -12 * Math.sqrt(2 * layers);
  let difference = 0;
  for (const count of [PREFILL_TOKENS, TILED_TOKENS]) {
    const prompt = promptOf(count, count, vocabularySize);
    const [[expected], [actual]] = [
      await onHost.driver(BigInt(count)).step([[0, 0, count, true]], [[0, prompt]]),
      await onDevice.driver(BigInt(count)).step([[0, 0, count, true]], [[0, prompt]]),
    ];
    difference = Math.max(difference, relative(expected, actual));
  }
  return {
    model: 'tiny F16, random weights, f16 KV',
    tokens: `prompts of ${PREFILL_TOKENS} and ${TILED_TOKENS}, logits compared with the host’s`,
    difference,
    bound,
    passed: difference <= bound,
    needs: MATRIX_KERNELS.map(({ source }) => source),
    note: 'root mean square of the difference over that of the logits',
  };
}

/** One prompt whole, in chunks and beside another: the same bits, and near to the host's. */
async function family(file) {
  const [{ logitsRows }, { boundOf, distance }, { isRecurrent, valuesOf }] = await Promise.all([
    fromDist('cli/verify/invariance.js'),
    fromDist('cli/verify/beside-host.js'),
    fromDist('executor/model/values.js'),
  ]);
  const { length, chunk, others } = FAMILY_PROMPT;
  const limits = { maxContext: 32, maxStepTokens: 32, maxSequences: 1 + others, kvCacheType: 'f16' };
  const onHost = await load(file, { ...limits, kind: 'host' });
  const expected = await logitsRows(onHost.device, onHost.model, length, 0, length);
  const { device, model } = await load(file, limits);
  const { layers, experts } = model.forward.model;
  const hashes = new Set();
  let actual = [];
  for (const [rows, beside] of [
    [length, 0],
    [chunk, 0],
    [length, others],
  ]) {
    actual = await logitsRows(device, model, rows, beside, length);
    const hash = createHash('sha256');
    for (const row of actual) hash.update(row);
    hashes.add(hash.digest('hex'));
  }
  const isDoubled = experts !== undefined || [...valuesOf(model.graph)].some(isRecurrent);
  const roundsToInt8 = !path.basename(file).includes('f16');
  // A row behind another token is of another text, where two were equally likely but for the roundings.
  const other = expected.findIndex((row, i) => likeliest(row) !== likeliest(actual[i]));
  const compared = other < 0 ? expected.length : other + 1;
  const difference = distance(expected.slice(0, compared), actual.slice(0, compared), experts !== undefined);
  const bound = boundOf(layers, { roundsToInt8, isDoubled });
  const [hash] = hashes;
  return {
    model: path.basename(file, '.gguf'),
    tokens:
      `${length} and 3 more, whole, in chunks of ${chunk} and beside another: ` +
      `${hashes.size === 1 ? `one hash, ${hash.slice(0, 12)}` : `${hashes.size} hashes`}` +
      `${compared < expected.length ? `; ${compared} of ${expected.length} rows have the same text as the host’s` : ''}`,
    difference,
    bound,
    passed: hashes.size === 1 && difference <= bound,
  };
}

const likeliest = (logits) => logits.indexOf(Math.max(...logits));

function relative(expected, actual) {
  const square = (values) => values.reduce((sum, value) => sum + value * value, 0);
  return Math.sqrt(square(expected.map((value, i) => value - actual[i])) / square(expected));
}

/** Bytes that are the same for the same seed (mulberry32). */
function seededBytes(seed) {
  let state = seed;
  return (bytes) => {
    for (let i = 0; i < bytes.length; i++) {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      bytes[i] = (t ^ (t >>> 14)) >>> 24;
    }
  };
}

/** Runs one check in a process of its own. Resolves to its row. */
function measure(target, check) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
  const totalsFile = path.join(folder, 'totals.json');
  const env = {
    ...process.env,
    ROCM_PATH: path.join(root, 'build', 'double'),
    ROCMFORGE_DOUBLE_ARCH: target,
    ROCMFORGE_DOUBLE_EMULATOR: `exec python3 ${path.join(root, 'tools', 'emulator', 'serve.py')}`,
    ROCMFORGE_DOUBLE_MEMORY: String(1 << 30),
    ROCMFORGE_EMULATOR_TOTALS: totalsFile,
  };
  const started = performance.now();
  return new Promise((resolve, reject) => {
    const script = fileURLToPath(import.meta.url);
    const child = spawn(process.execPath, [script, '--child', check], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    child.on('close', (code) => {
      const seconds = Math.round((performance.now() - started) / 1000);
      if (code !== 0) {
        reject(new Error(`${check} on ${target} ended with ${code}`));
        return;
      }
      const result = JSON.parse(output.trim().split('\n').at(-1) ?? '');
      const totals = JSON.parse(readFileSync(totalsFile, 'utf8'));
      rmSync(folder, { recursive: true });
      const missing = (result.needs ?? []).filter(
        (pattern) => !Object.keys(totals.kernels).some((kernel) => new RegExp(pattern).test(kernel)),
      );
      for (const pattern of missing) console.error(`no kernel ${pattern} was launched`);
      resolve({ ...result, passed: result.passed && missing.length === 0, target, check, seconds, totals });
    });
  });
}

if (options.child !== undefined) {
  const result = await (CHECKS[options.child] ?? (() => family(options.child)))();
  process.stdout.write(`${JSON.stringify(result)}\n`);
  process.exit(0);
}
if (!process.env.TINYGRAD_DIR) fail('TINYGRAD_DIR is not set (see tools/emulator/run_hsaco.py)');
const { files } = options;
const checks =
  files === undefined
    ? options.check.split(',')
    : readdirSync(files)
        .filter((name) => name.endsWith('.gguf'))
        .map((name) => path.resolve(files, name));
for (const check of files === undefined ? checks : [])
  if (!(check in CHECKS)) fail(`no check ${check}; there are ${Object.keys(CHECKS).join(', ')}`);
if (files === undefined && !existsSync(shared) && checks.some((check) => check !== 'prefill'))
  fail(`${shared} is not there`);
const work = checks.flatMap((check) => options.target.split(',').map((target) => ({ check, target })));
for (const target of new Set(work.map(({ target }) => target))) codeObjects(target);
const isDone = files === undefined ? () => false : doneBefore();
await Promise.all(
  Array.from({ length: Number(options.jobs) }, async () => {
    for (let next = work.shift(); next !== undefined; next = work.shift()) {
      const { check, target } = next;
      if (isDone(check, target)) continue;
      const row = await measure(target, check).catch((error) => console.error(`verify-emulator: ${error.message}`));
      if (row === undefined) {
        process.exitCode = 1;
        continue;
      }
      console.log(
        `${row.passed ? 'passed' : 'FAILED'}  ${row.model} on ${target}: ${row.tokens}; Δ ${row.difference.toExponential(2)} of ` +
          `${row.bound.toExponential(2)}; ${row.totals.instructions} wave-instructions in ${row.seconds} s`,
      );
      if (!row.passed) process.exitCode = 1;
      write([row]);
    }
  }),
);
