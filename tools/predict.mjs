// What a token of one stream takes on a card that nobody here has: what the target's instruction set emulator executes of the
// first and the last block of each launch, by class of instruction, the lines of memory that they touch, and what a card
// of predict/hardware.mjs would need for it. A prediction, no measurement.
//
//   npm run build && npm run build:kernels -- --target gfx1100
//   TINYGRAD_DIR=CHECKOUT npm run predict -- --target gfx1100 [--shape llama-3.1-8b] [--type Q4_K_M] [--position 512] [--counts]
//
// Weights are zeros: none is brought. Launches of a kernel with the same grid and numbers count once. Disassembler: as for
// count-kernels.mjs.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { SHAPES } from '../dist/cli/synth/shapes.js';
import { synth } from '../dist/cli/synth.js';
import { StepDriver } from '../dist/cli/verify/step-driver.js';
import { Device } from '../dist/executor/device/device.js';
import { loadModel } from '../dist/executor/loaded-model.js';
import { CLASS_NAMES, classOf, disassemble, instructionsOf } from './kernel-counts.mjs';
import { occupancy } from './kernel-limits.mjs';
import { BLOCK, describe, Emulator } from './predict/emulator.mjs';
import { CARDS, predictLaunch, predictToken } from './predict/hardware.mjs';
import { PlanDevice } from './predict/plan-device.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'gfx1100' },
    shape: { type: 'string', default: 'llama-3.1-8b' },
    type: { type: 'string', default: 'Q4_K_M' },
    position: { type: 'string', default: '512' },
    kernels: { type: 'string', default: path.join(root, 'build', 'kernels') },
    counts: { type: 'boolean', default: false },
  },
});

const card = CARDS[options.target];
const position = Number(options.position);
const known = { shape: Object.keys(SHAPES), target: Object.keys(CARDS) };
if (!known.shape.includes(options.shape)) fail(`no shape "${options.shape}"; there are ${known.shape.join(', ')}`);
if (card === undefined) fail(`no card of "${options.target}"; there are ${known.target.join(', ')}`);
if (!Number.isInteger(position) || position < 1) fail(`--position ${options.position} is no position behind a prompt`);

const folder = path.join(options.kernels, options.target);
const manifest = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'));
const described = describe(folder);
const scratch = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-predict-'));
try {
  await predict();
} finally {
  rmSync(scratch, { recursive: true });
}

async function predict() {
  const model = path.join(scratch, 'model.gguf');
  synth({ shape: SHAPES[options.shape], type: options.type, output: model });
  const file = path.join(scratch, 'memory');
  const native = new PlanDevice(file, Object.values(described)[0].wave);
  const launches = await launchesOfOneRow(native, model);
  const emulator = new Emulator(folder, described, { file, ...native.memoryPlace });
  const classes = new Map();
  const rows = new Map();
  for (const launch of launches) {
    const key = `${launch.kernel} ${launch.grid} ${numbersOf(launch)}`;
    const known = rows.get(key);
    if (known !== undefined) {
      known.times += 1;
      continue;
    }
    const census = await emulator.count(launch, card?.latency);
    rows.set(key, { ...launch, ...byClass(launch.kernel, census, classes), census, times: 1 });
  }
  emulator.close();
  if (options.counts) printCounts([...rows.values()]);
  else printPrediction([...rows.values()]);
}

/** The arguments of a launch that are no addresses. */
function numbersOf({ kernel, words }) {
  return described[kernel].arguments.flatMap(({ buffer }, i) => (buffer ? [] : [words[i]])).join();
}

/** What a step of one row launches. */
async function launchesOfOneRow(native, model) {
  const device = new Device(native, 'hip', options.target);
  const limits = { maxContext: position + 64, maxSequences: 1, maxStepTokens: 512, kvMemoryBytes: 0, fingerprint: '' };
  const loaded = await loadModel(device, { ...limits, path: model, kvCacheType: 'f16' }, () => undefined);
  const driver = new StepDriver(device, loaded, 1n);
  const prompt = Uint32Array.from({ length: position + 2 }, (_, i) => i + 1);
  for (let at = 0; at < position; at += 512) {
    const count = Math.min(512, position - at);
    await driver.sample([[0, at, count, false]], at === 0 ? [[0, prompt]] : []);
  }
  await driver.sample([[0, position, 1, true]]);
  return native.launched;
}

/** Wave-instructions that a block executes on average, by class, and lines of 128 bytes that it asks for. */
function byClass(kernel, { executed, lines, blocks }, known) {
  if (!known.has(kernel)) {
    const object = path.join(folder, described[kernel].file);
    const all = instructionsOf(disassemble(manifest.compiler, object), Object.keys(described)).get(kernel);
    const start = all[0].address;
    known.set(kernel, new Map(all.map(({ mnemonic, address }) => [address - start, classOf(mnemonic)])));
  }
  const classes = known.get(kernel);
  const perBlock = Object.fromEntries(CLASS_NAMES.map((name) => [name, 0]));
  for (const [offset, times] of Object.entries(executed)) {
    const name = classes.get(Number(offset));
    if (name === undefined) throw new Error(`${kernel}: nothing is at ${offset}`);
    perBlock[name] += times / blocks.length;
  }
  const asked = Object.values(lines).reduce((sum, count) => sum + count, 0) / blocks.length;
  return { perBlock, asked };
}

function fail(message) {
  console.error(`predict: ${message}`);
  process.exit(1);
}

function printCounts(rows) {
  const columns = ['kernel', 'blocks', 'fit', ...CLASS_NAMES, 'lines asked for', 'lines of a block', 'of them shared'];
  printHead([...columns, 'passes of LDS', 'for conflicts', 'waits for memory', 'alone, µs', 'KB in flight a SIMD']);
  for (const { kernel, grid, perBlock, asked, census } of rows) {
    const counts = CLASS_NAMES.map((name) => Math.round(perBlock[name]));
    const blocks = census.blocks.length;
    const lds = [census.ldsPasses / blocks, census.ldsConflicts / blocks].map(Math.round);
    const waits = Math.round(census.waits / blocks / wavesOf(kernel));
    const times = [(clockOf(census).chain / 1000).toFixed(2), (inFlight(kernel, grid, census) / 1024).toFixed(1)];
    const lines = [Math.round(asked), Math.round(linesOf(census)), census.shared];
    printRow([kernel, grid.join(' × '), residentOf(kernel), ...counts, ...lines, ...lds, waits, ...times]);
  }
}

function printPrediction(rows) {
  const predictions = rows.map(({ kernel, grid, perBlock, asked, census, times }) => ({
    ...{ kernel, grid, times, census },
    ...predictLaunch(card, {
      ...{ blocks: blocksOf(grid), resident: residentOf(kernel), perBlock, asked, clock: clockOf(census) },
      ...{ lines: linesOf(census), shared: census.shared, ldsPasses: census.ldsPasses / census.blocks.length },
    }),
  }));
  printHead([
    'kernel',
    'blocks',
    'times',
    'longest part, µs',
    'by',
    'waiting, µs',
    'estimate, µs',
    'lost a token, µs',
    'memory, MB',
  ]);
  for (const { kernel, grid, times, longest, by, waiting, estimate, memoryBytes } of predictions) {
    const us = [
      longest.toFixed(2),
      by,
      waiting.toFixed(2),
      estimate.toFixed(2),
      (times * (estimate - longest)).toFixed(0),
    ];
    printRow([kernel, grid.join(' × '), times, ...us, (memoryBytes / 1e6).toFixed(2)]);
  }
  const bytes = predictions.reduce((sum, { times, memoryBytes }) => sum + times * memoryBytes, 0);
  const roofUs = bytes / (card.memoryGBs * 1000);
  const launches = predictions.reduce((sum, { times }) => sum + times, 0);
  for (const nodeUs of card.nodeUs) {
    const us = predictToken(predictions, nodeUs);
    process.stdout.write(
      `\n${card.name}, nodes of ${nodeUs} µs: ${launches} launches, ${(bytes / 1e9).toFixed(2)} GB, ${us.toFixed(0)} µs a token, ` +
        `${(1e6 / us).toFixed(1)} tokens/s, ${((100 * roofUs) / us).toFixed(0)} % of the roof of ${(1e6 / roofUs).toFixed(1)}\n`,
    );
  }
}

function blocksOf(grid) {
  return grid.reduce((product, dim) => product * dim, 1);
}

function residentOf(name) {
  const kernels = manifest.files.flatMap(({ kernels: held }) => held);
  return occupancy(
    options.target,
    kernels.find((kernel) => kernel.name === name),
  ).blocks;
}

function wavesOf(name) {
  return BLOCK / described[name].wave;
}

/** Of the blocks that ran, on average. */
function clockOf({ clocks }) {
  const mean = (name) => clocks.reduce((sum, clock) => sum + clock[name], 0) / clocks.length;
  return { chain: mean('chain'), head: mean('head'), drain: mean('drain') };
}

/** Bytes of memory that the blocks on a SIMD wait for, on average over the time that a block takes alone. */
function inFlight(kernel, grid, census) {
  const onUnit = Math.min(residentOf(kernel), Math.ceil(blocksOf(grid) / card.units));
  const { chain } = clockOf(census);
  return chain === 0 ? 0 : ((census.farBytes / census.blocks.length) * (card.latency.far / chain) * onUnit) / 4;
}

function linesOf({ blocks }) {
  return blocks.reduce((sum, lines) => sum + lines, 0) / blocks.length;
}

function printHead(cells) {
  printRow(cells);
  printRow(cells.map(() => '---'));
}

function printRow(cells) {
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
}
