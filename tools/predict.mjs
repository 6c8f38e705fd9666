// Predicts the time of a token of one stream, or of a step of a prompt, on a card that is not at hand: what the target's emulator
// executes of the first and the last block of each launch, by class of instruction, the lines of memory that they touch, and what
// a card of predict/hardware.mjs would need for it. A prediction, no measurement.
//
//   npm run build && npm run build:kernels -- --target gfx1100
//   TINYGRAD_DIR=CHECKOUT npm run predict -- --target gfx1100 [--shape llama-3.1-8b] [--type Q4_K_M] [--position 512] [--prompt ROWS] [--counts]
//   TINYGRAD_DIR=CHECKOUT npm run predict -- --all   (what `rocmforge verify --speed` prints beside what it measures)
//       [--only 'gfx1100 qwen3-8b Q4_K_M,...']       (these rows of it; the others stay as they are)
//
// --prompt: of the next ROWS rows of a prompt in place of one row. Of that, time alone means something: what blocks read is taken to be
// in the second cache, so memory's share is not told apart.
//
// Weights are zeros: none is brought. Launches of a kernel with the same grid and numbers count once. Disassembler: as for
// count-kernels.mjs.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SHAPES } from '../dist/cli/synth/shapes.js';
import { synth } from '../dist/cli/synth/synth.js';
import { StepDriver } from '../dist/cli/verify/step-driver.js';
import { Device } from '../dist/executor/device/device.js';
import { loadModel } from '../dist/executor/load/loaded-model.js';
import { Counter, printCounts, printPrediction } from './predict/counted.mjs';
import { describe, Emulator } from './predict/emulator.mjs';
import { CARDS } from './predict/hardware.mjs';
import { PlanDevice } from './predict/plan-device.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'gfx1100' },
    shape: { type: 'string', default: 'llama-3.1-8b' },
    type: { type: 'string', default: 'Q4_K_M' },
    position: { type: 'string', default: '512' },
    prompt: { type: 'string', default: '0' },
    kernels: { type: 'string', default: path.join(root, 'build', 'kernels') },
    counts: { type: 'boolean', default: false },
    all: { type: 'boolean', default: false },
    only: { type: 'string' },
  },
});

/** Targets whose predictions `rocmforge verify --speed` prints next to its measurements. */
const TARGETS = ['gfx1100', 'gfx1201', 'gfx942'];
const MODELS = [
  { shape: 'llama-3.1-8b', type: 'Q4_K_M' },
  { shape: 'llama-3.1-8b', type: 'Q8_0' },
  { shape: 'llama-3.1-8b', type: 'F16' },
  { shape: 'llama-3.2-1b', type: 'Q8_0' },
  { shape: 'qwen3-8b', type: 'Q4_K_M' },
];
const PREDICTED = path.join(root, 'docs', 'evidence', 'data', 'predicted-speeds.json');

const position = Number(options.position);
if (!Number.isInteger(position) || position < 1) fail(`--position ${options.position} is no position behind a prompt`);
const promptRows = Number(options.prompt);
if (!Number.isInteger(promptRows) || promptRows < 0 || promptRows > 512)
  fail(`--prompt ${options.prompt} are no rows of a step of 512`);
if (options.only !== undefined && !options.all) fail('--only names rows of --all');
if (options.all) {
  const speeds = [];
  const before = JSON.parse(readFileSync(PREDICTED, 'utf8'));
  const nameOf = ({ target, shape, type }) => `${target} ${shape} ${type}`;
  const wanted = options.only?.split(',');
  const rows = TARGETS.flatMap((target) => MODELS.map((model) => ({ target, ...model })));
  const unknown = wanted?.find((name) => !rows.some((row) => nameOf(row) === name));
  if (unknown !== undefined) fail(`no row "${unknown}"; there are ${rows.map(nameOf).join(', ')}`);
  for (const row of rows) {
    const known = before.find((one) => nameOf(one) === nameOf(row));
    const isKept = wanted !== undefined && !wanted.includes(nameOf(row)) && known !== undefined;
    speeds.push(isKept ? known : await predict(row));
  }
  // As npm run format has it afterwards.
  writeFileSync(PREDICTED, `${JSON.stringify(speeds, undefined, 2)}\n`);
} else {
  const known = { shape: Object.keys(SHAPES), target: Object.keys(CARDS).filter((target) => target.startsWith('gfx')) };
  for (const [name, names] of Object.entries(known)) {
    if (!names.includes(options[name])) fail(`no ${name} "${options[name]}"; there are ${names.join(', ')}`);
  }
  await predict(options);
}

async function predict({ target, shape, type }) {
  const card = CARDS[target];
  const folder = path.join(options.kernels, target);
  const { compiler } = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
  const described = describe(folder);
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-predict-'));
  const rows = new Map();
  try {
    const model = path.join(scratch, 'model.gguf');
    synth({ shape: SHAPES[shape], type, output: model });
    const file = path.join(scratch, 'memory');
    const native = new PlanDevice(file, Object.values(described)[0].wave);
    const launches = await launchesOfStep(new Device(native, 'hip', target), native, model);
    const emulator = new Emulator(folder, described, { file, ...native.memoryPlace });
    const counter = new Counter({ target, card, compiler, emulator });
    for (const launch of launches) {
      const key = `${launch.kernel} ${launch.grid} ${numbersOf(described[launch.kernel], launch)}`;
      const known = rows.get(key);
      if (known !== undefined) known.times += 1;
      else rows.set(key, { ...sharedByPrompt(await counter.count(launch)), times: 1 });
    }
    emulator.close();
  } finally {
    rmSync(scratch, { recursive: true });
  }
  if (options.counts) return printCounts(card, [...rows.values()]);
  const rowsOfStep = promptRows > 0 ? `${promptRows} rows of a prompt of ` : '';
  const what = `${rowsOfStep}${shape} ${type} behind ${position} positions`;
  const { rates, kernels } = printPrediction(card, [...rows.values()], what, promptRows);
  const speeds = card.nodeUs.map((nodeUs, i) => ({ nodeUs, tokensPerSecond: Number(rates[i].toFixed(1)) }));
  return { target, card: card.name, shape, type, position, speeds, kernels };
}

/** Blocks of a prompt's products share their tiles: what one reads is taken to be in the second cache when another does. */
function sharedByPrompt(row) {
  return promptRows > 0 ? { ...row, shared: row.touched } : row;
}

/** The arguments of a launch that are no addresses. */
function numbersOf({ arguments: described }, { words }) {
  return described.flatMap(({ buffer }, i) => (buffer ? [] : [words[i]])).join();
}

/** Launches of a step of one row, or of the prompt's next rows. */
async function launchesOfStep(device, native, model) {
  const limits = {
    maxContext: position + promptRows + 64,
    maxSequences: 1,
    maxStepTokens: 512,
    kvMemoryBytes: 0,
    fingerprint: '',
  };
  const loaded = await loadModel(device, { ...limits, path: model, kvCacheType: 'f16' }, () => undefined);
  const driver = new StepDriver(device, loaded, 1n);
  const prompt = Uint32Array.from({ length: position + promptRows + 2 }, (_, i) => i + 1);
  for (let at = 0; at < position; at += 512) {
    const count = Math.min(512, position - at);
    await driver.sample([[0, at, count, false]], at === 0 ? [[0, prompt]] : []);
  }
  if (promptRows > 0) await driver.sample([[0, position, promptRows, false]]);
  else await driver.sample([[0, position, 1, true]]);
  return native.launched;
}

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`predict: ${message}`);
  process.exit(1);
}
