// Distance of a device's logits from those of double precision, which the numbers in the file's blocks give: families of
// random models, past every window and the trained context. One line a model; ends with 1 where one is further than
// --bound, root mean square in the reference's deviations.
//
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
//   node build/bench/bench/gpu/exactness.js [--device cuda] [--families llama,qwen3] [--types Q8_0,Q4_K_M] [--bound 3e-3]
import { parseArgs } from 'node:util';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import type { Device } from '../../src/executor/device/device.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { type DeviceKind, openDevice } from '../../src/executor/load/open-device.js';
import { float64Forward } from '../../test/support/float64-forward.js';
import {
  FAMILY_QUANTIZATIONS,
  type FamilyQuantization,
  writeQuantizedFamily,
} from '../../test/support/quantized-family.js';
import { RANDOM_FAMILY_NAMES, type RandomFamilyName } from '../../test/support/random-families.js';

/** Tokens of the prompt, and those that are fed one by one after it. */
const [PROMPT, FED] = [72, 8];

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    families: { type: 'string', default: RANDOM_FAMILY_NAMES.join() },
    types: { type: 'string', default: FAMILY_QUANTIZATIONS.join() },
    bound: { type: 'string', default: '3e-3' },
  },
});

async function logitsOf(device: Device, path: string): Promise<{ tokens: Uint32Array; rows: Float32Array[] }> {
  const limits = { maxContext: 320, maxSequences: 1, maxStepTokens: PROMPT, kvMemoryBytes: 0 };
  const model = await loadModel(device, { path, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
  const tokens = promptOf(1, PROMPT + FED, model.forward.model.vocabularySize);
  const driver = new StepDriver(device, model, 1n);
  const rows = (await driver.step([[0, 0, PROMPT, true]], [[0, tokens]])).map((row) => row.slice());
  for (let at = PROMPT; at < tokens.length; at++) {
    rows.push(...(await driver.step([[0, at, 1, true]])).map((row) => row.slice()));
  }
  model.release();
  return { tokens, rows };
}

function relative(row: Float32Array, reference: Float64Array): number {
  const mean = reference.reduce((sum, logit) => sum + logit, 0) / reference.length;
  const difference = reference.reduce((sum, logit, i) => sum + (logit - (row[i] as number)) ** 2, 0);
  return Math.sqrt(difference / reference.reduce((sum, logit) => sum + (logit - mean) ** 2, 0));
}

const device = openDevice({ kind: options.device as DeviceKind });
console.log(device.description);
for (const family of options.families.split(',') as RandomFamilyName[]) {
  for (const type of options.types.split(',') as FamilyQuantization[]) {
    const file = writeQuantizedFamily(family, type);
    const { tokens, rows } = await logitsOf(device, file);
    const expected = float64Forward(file, [...tokens], { phi3Window: true }).slice(PROMPT - 1);
    const largest = Math.max(...rows.map((row, step) => relative(row, expected[step] as Float64Array)));
    const isWithin = rows.length === FED + 1 && largest <= Number(options.bound);
    console.log(`${family} ${type}: ${largest.toExponential(2)}${isWithin ? '' : ' TOO FAR'}`);
    if (!isWithin) process.exitCode = 1;
  }
}
