// Runs whole models on emulated GPUs and writes what came of it into build/docs/verification.md.
//
//   npm run verify:emulator [-- --target gfx1100,gfx942] [--check stories,q4_k,q8_0,prefill]
//
// The executor of the product drives the HIP library of the tests (test/doubles/hip), which sends each launch of a code
// object to an instruction set emulator. Needs TINYGRAD_DIR (see tools/emulator/run_hsaco.py), the built code objects and
// double, and for all checks but `prefill` ../shared/data. One process a target and check: a driver is loaded once.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const shared = path.join(root, '..', 'shared', 'data');
const docs = path.join(root, 'build', 'docs', 'verification.md');
const fromDist = (file) => import(pathToFileURL(path.join(root, 'dist', file)).href);

const PREFILL_TOKENS = 16;
/** More rows than attention splits: from here on they share the keys and values of their sequence. */
const TILED_TOKENS = 144;
const GREEDY_TOKENS = 8;

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
async function load(file, { maxContext, maxStepTokens, kvCacheType, kind = 'hip' }) {
  const [{ openDevice }, { loadModel }, { StepDriver }] = await Promise.all([
    fromDist('executor/load/open-device.js'),
    fromDist('executor/load/loaded-model.js'),
    fromDist('cli/verify/step-driver.js'),
  ]);
  const device = openDevice({ kind });
  const limits = { maxContext, maxSequences: 1, maxStepTokens, kvMemoryBytes: 0 };
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
  return new Promise((resolve) => {
    const script = fileURLToPath(import.meta.url);
    const child = spawn(process.execPath, [script, '--child', check], { env, stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    child.on('close', (code) => {
      const seconds = Math.round((performance.now() - started) / 1000);
      if (code !== 0) fail(`${check} on ${target} ended with ${code}`);
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

/** Names of the code objects of a target by their content. */
function codeObjects(target) {
  const file = path.join(root, 'build', 'kernels', target, 'manifest.json');
  if (!existsSync(file)) fail(`${file} is missing; run "npm run build:kernels -- --target ${target}"`);
  return new Map(JSON.parse(readFileSync(file, 'utf8')).files.map((entry) => [entry.sha256, entry.file]));
}

const HEADING = '## Whole models';
const COLUMNS = [
  'model',
  'target',
  'tokens',
  'largest Δ',
  'accepted',
  'verdict',
  'code objects',
  'wave-instructions',
  'seconds',
  'date',
  'commit',
];
const INTRODUCTION = `${HEADING}

Written by \`npm run verify:emulator\`; do not edit. The executor ran each model on emulated GPUs: its own driver layer,
launch plans and graphs, with the library of the tests in HIP's place and the same emulator below. Δ is that of log
probabilities from llama.cpp's, in nats; for random weights, that of logits from the host device's, root mean square over
that of the logits. Seconds are those of the emulator, with what else the machine did, and say nothing of a GPU.
`;

/** A row as lines of Markdown: its table line, and the code objects behind it. */
function linesOf(row, commit, date) {
  const names = codeObjects(row.target);
  const used = new Map();
  for (const { sha256, launches } of Object.values(row.totals.kernels)) {
    used.set(sha256, (used.get(sha256) ?? 0) + launches);
  }
  const files = [...used]
    .map(([sha256, launches]) => ({ sha256, launches, file: names.get(sha256) ?? 'not in the manifest' }))
    .sort((a, b) => a.file.localeCompare(b.file));
  const together = createHash('sha256')
    .update(files.map(({ sha256 }) => sha256).join())
    .digest('hex')
    .slice(0, 12);
  const cells = [
    row.model,
    row.target,
    row.tokens,
    row.difference.toExponential(1),
    row.bound.toExponential(1),
    row.passed ? 'passed' : 'FAILED',
    `${files.length}, \`${together}\``,
    row.totals.instructions,
    row.seconds,
    date,
    commit,
  ];
  const list = files.map(({ file, sha256, launches }) => `${file} ${sha256} ${launches}`);
  const summary = `<summary>${row.model} on ${row.target}: code objects, their sha256, launches</summary>`;
  return {
    key: `${row.model} | ${row.target}`,
    line: `| ${cells.join(' | ')} |`,
    details: ['<details>', summary, '', '```', ...list, '```', '</details>'].join('\n'),
  };
}

/** Replaces the rows of the same model and target, and keeps the others. */
function write(rows) {
  const [before, section = ''] = (existsSync(docs) ? readFileSync(docs, 'utf8') : '').split(
    new RegExp(`^(?=${HEADING}$)`, 'm'),
  );
  const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
  const date = new Date().toISOString().slice(0, 10);
  const entries = new Map();
  for (const line of section
    .split('\n')
    .filter((text) => text.startsWith('| '))
    .slice(2)) {
    const [, model, target] = line.split('|').map((cell) => cell.trim());
    entries.set(`${model} | ${target}`, { line, details: '' });
  }
  for (const details of section.match(/^<details>[\s\S]*?^<\/details>$/gm) ?? []) {
    const [, model, target] =
      /<summary>(.*) on (\S+): /.exec(details) ?? fail(`${docs} has details of no model:\n${details}`);
    const entry = entries.get(`${model} | ${target}`);
    if (entry !== undefined) entry.details = details;
  }
  for (const { key, ...entry } of rows.map((row) => linesOf(row, commit, date))) entries.set(key, entry);
  const sorted = [...entries].sort(([a], [b]) => a.localeCompare(b)).map(([, entry]) => entry);
  const table = [COLUMNS, COLUMNS.map(() => '---')].map((cells) => `| ${cells.join(' | ')} |`);
  const lines = [
    INTRODUCTION,
    ...table,
    ...sorted.map(({ line }) => line),
    '',
    ...sorted.map(({ details }) => details),
  ];
  mkdirSync(path.dirname(docs), { recursive: true });
  writeFileSync(docs, `${before.trimEnd()}\n\n${lines.join('\n')}\n`);
}

if (options.child !== undefined) {
  process.stdout.write(`${JSON.stringify(await CHECKS[options.child]())}\n`);
  process.exit(0);
}
if (!process.env.TINYGRAD_DIR) fail('TINYGRAD_DIR is not set (see tools/emulator/run_hsaco.py)');
const checks = options.check.split(',');
for (const check of checks)
  if (!(check in CHECKS)) fail(`no check ${check}; there are ${Object.keys(CHECKS).join(', ')}`);
if (!existsSync(shared) && checks.some((check) => check !== 'prefill')) fail(`${shared} is not there`);
let failed = false;
for (const check of checks) {
  for (const target of options.target.split(',')) {
    codeObjects(target);
    const row = await measure(target, check);
    console.log(
      `${row.passed ? 'passed' : 'FAILED'}  ${row.model} on ${target}: ${row.tokens}; Δ ${row.difference.toExponential(2)} of ` +
        `${row.bound.toExponential(2)}; ${row.totals.instructions} wave-instructions in ${row.seconds} s`,
    );
    failed ||= !row.passed;
    write([row]);
  }
}
if (failed) process.exitCode = 1;
