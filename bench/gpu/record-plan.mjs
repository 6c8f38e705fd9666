// Writes what a step of one row launches on Hopper for bench/gpu/replay.cu, which times each kernel of it: PLAN.txt, what the step's
// tables hold, PLAN.bin, and the code objects beside them.
//
//   npm run build && npm run build:kernels -- --target sm_90
//   node bench/gpu/record-plan.mjs SHAPE TYPE POSITION FOLDER
import { appendFileSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { SHAPES } from '../../dist/cli/synth/shapes.js';
import { synth } from '../../dist/cli/synth/synth.js';
import { StepDriver } from '../../dist/cli/verify/step-driver.js';
import { Device } from '../../dist/executor/device/device.js';
import { allContracts } from '../../dist/executor/kernels/index.js';
import { COUNTED_BASE } from '../../dist/executor/load/counting-device.js';
import { loadModel } from '../../dist/executor/load/loaded-model.js';
import { PlanDevice } from '../../tools/predict/plan-device.mjs';

const TARGET = 'sm_90';
const BLOCK = 256;
const [shape, type, at, folder] = process.argv.slice(2);
const position = Number(at);
const name = `${shape}-${type}-${position}`;
const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
const objects = path.join(root, 'build', 'kernels', TARGET);
const manifest = JSON.parse(readFileSync(path.join(objects, 'manifest.json'), 'utf8'));
const files = new Map(
  manifest.files.flatMap(({ file, kernels }) => kernels.map((kernel) => [kernel.name, { file, ...kernel }])),
);
const contracts = new Map(allContracts.map((contract) => [contract.name, contract]));

/** Keeps each write's bytes in PLAN.bin. */
class RecordedDevice extends PlanDevice {
  lines = [];
  #written = 0;

  write(address, data) {
    super.write(address, data);
    appendFileSync(path.join(folder, `${name}.bin`), data);
    this.lines.push(`write ${address} ${data.length} ${this.#written}`);
    this.#written += data.length;
  }
}

mkdirSync(folder, { recursive: true });
writeFileSync(path.join(folder, `${name}.bin`), '');
const scratch = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-plan-'));
try {
  const model = path.join(scratch, 'model.gguf');
  synth({ shape: SHAPES[shape], type, output: model });
  const native = new RecordedDevice(path.join(scratch, 'memory'), 32);
  const device = new Device(native, 'cuda', TARGET);
  const limits = { maxContext: position + 64, maxSequences: 1, maxStepTokens: 512, kvMemoryBytes: 0, fingerprint: '' };
  const loaded = await loadModel(device, { ...limits, path: model, kvCacheType: 'f16' }, () => undefined);
  const driver = new StepDriver(device, loaded, 1n);
  const prompt = Uint32Array.from({ length: position + 2 }, (_, i) => i + 1);
  for (let from = 0; from < position; from += 512) {
    const count = Math.min(512, position - from);
    await driver.sample([[0, from, count, false]], from === 0 ? [[0, prompt]] : []);
  }
  await driver.sample([[0, position, 1, true]]);
  const used = [...new Set(native.launched.map(({ kernel }) => kernel))];
  const kernels = used.map((kernel) => {
    const { threads = BLOCK, dynamicSharedBytes = 0 } = contracts.get(kernel);
    const { file } = files.get(kernel);
    copyFileSync(path.join(objects, file), path.join(folder, file));
    return `kernel ${kernel} ${file} ${threads} ${dynamicSharedBytes}`;
  });
  const launches = native.launched.map(({ kernel, grid, words }) => {
    const described = files.get(kernel).arguments;
    const key = described.flatMap(({ kind }, i) => (kind === 'buffer' ? [] : [words[i]])).join(',') || '-';
    const values = described.map(({ bytes }, i) => `${bytes}:${words[i]}`);
    return `launch ${used.indexOf(kernel)} ${grid.join(' ')} ${key} ${values.join(' ')}`;
  });
  const bytes = native.allocate(0) - COUNTED_BASE;
  const lines = [`memory ${COUNTED_BASE} ${bytes}`, ...kernels, ...native.lines, ...launches];
  writeFileSync(path.join(folder, `${name}.txt`), `${lines.join('\n')}\n`);
  console.log(`${name}: ${launches.length} launches of ${used.length} kernels, ${(bytes / 1e9).toFixed(2)} GB`);
} finally {
  rmSync(scratch, { recursive: true });
}
