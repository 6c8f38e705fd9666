import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { BLOCK_TYPES, type BlockType } from '../../src/executor/kernels/index.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import type { GgufBuilder } from '../support/gguf-builder.js';
import { quantizedTwins } from '../support/quantized-twins.js';

const [PROMPT, DECODED] = [40, 8];
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

const twins = (type: BlockType) => quantizedTwins(type, 23, 'F32', ({ buffer }) => new Uint8Array(buffer));

async function drive(builder: GgufBuilder) {
  const file = path.join(folder, 'twin.gguf');
  writeFileSync(file, builder.build());
  const device = openDevice({ kind: 'host' });
  const limits = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0 };
  const options = { path: file, kvCacheType: 'f32', fingerprint: '', ...limits } as const;
  const model = await loadModel(device, options, () => undefined);
  return { driver: new StepDriver(device, model, 1n), vocabulary: model.forward.model.vocabularySize };
}

/** The likeliest token after a prompt, and after each of those. */
async function generate(driver: StepDriver, prompt: Uint32Array): Promise<number[]> {
  const tokens = await driver.sample([[1, 0, PROMPT, true]], [[1, prompt]]);
  for (let i = 0; i < DECODED; i++) tokens.push(...(await driver.sample([[1, PROMPT + i, 1, true]])));
  return tokens;
}

/** The logits after a sequence's prompt and after each token behind it. */
async function logitsOf(driver: StepDriver, sequence: Uint32Array): Promise<Float32Array[]> {
  const rows = (await driver.step([[0, 0, PROMPT, true]], [[0, sequence]])).map((row) => row.slice());
  for (let i = 0; i < DECODED; i++) {
    const [row] = await driver.step([[0, PROMPT + i, 1, true]]);
    rows.push(row!.slice());
  }
  return rows;
}

/**
 * Error of int8 activations. A step is a 127th of the largest of 32 normal numbers, some 2.3 of their deviations, and
 * rounding is off by a step / √12. Each of two layers rounds what its four products take, the output once more: the root of
 * nine such errors; twice that, for what SwiGLU multiplies.
 */
const BOUND = (2 * Math.sqrt(9) * 2.3) / 127 / Math.sqrt(12);

it.each(BLOCK_TYPES)(
  '%s: a model generates, and its logits are those of the F32 numbers its blocks stand for',
  async (type) => {
    const [quantized, plain] = twins(type);
    const { driver, vocabulary } = await drive(quantized);
    const prompt = promptOf(1, PROMPT, vocabulary);
    const generated = await generate(driver, prompt);
    const sequence = Uint32Array.of(...prompt, ...generated.slice(0, DECODED));
    const actual = await logitsOf(driver, sequence);
    expect(actual.map((row) => row.indexOf(Math.max(...row)))).toEqual(generated);
    const expected = await logitsOf((await drive(plain)).driver, sequence);
    const relative = expected.map((row, step) => {
      const difference = row.reduce((sum, logit, i) => sum + (logit - actual[step]![i]!) ** 2, 0);
      return Math.sqrt(difference / row.reduce((sum, logit) => sum + logit ** 2, 0));
    });
    expect(Math.max(...relative)).toBeLessThanOrEqual(BOUND);
  },
);
