import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { distance } from '../../src/cli/verify/beside-host.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { unquantized, unquantizedBytes } from '../../src/cli/verify/unquantized.js';
import { BLOCK_TYPES, type BlockType } from '../../src/executor/kernels/index.js';
import { type LoadedModel, loadModel, loadOpened } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { MappedModel } from '../../src/executor/model/mapped-model.js';
import { ModelFiles } from '../../src/lib/gguf/model-files.js';
import { toHalf } from '../kernels/support/half.js';
import { quantizedTwins } from '../support/quantized-twins.js';
import { isFull, seed } from '../support/run-size.js';

const TYPES: readonly BlockType[] = isFull ? BLOCK_TYPES : ['q8_0', 'q4_k', 'mxfp4'];
const LIMITS = { maxContext: 64, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0 };

/** Paths of a model whose matrices are random blocks, and of one whose matrices are the f16 values that these stand for. */
function files(type: BlockType): readonly [quantized: string, plain: string] {
  const halves = (values: Float32Array) => new Uint8Array(Uint16Array.from(values, toHalf).buffer);
  const [quantized, plain] = quantizedTwins(type, seed(23), 'F16', halves);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const written = (name: string, builder: typeof plain): string => {
    writeFileSync(path.join(folder, name), builder.build());
    return path.join(folder, name);
  };
  return [written('quantized.gguf', quantized), written('plain.gguf', plain)];
}

async function logitsOf(model: LoadedModel): Promise<Float32Array> {
  const driver = new StepDriver(model.pipeline.last.device, model, 1n);
  const prompt = promptOf(1, 20, model.forward.model.vocabularySize);
  const [row] = await driver.step([[0, 0, prompt.length, true]], [[0, prompt]]);
  return (row as Float32Array).slice();
}

describe('a model without its quantization', () => {
  it.each(TYPES)('%s: has the logits of the f16 values that its blocks stand for', async (type) => {
    const [quantized, plain] = files(type);
    const host = openDevice({ kind: 'host' });
    const options = { kvCacheType: 'f16', fingerprint: '', ...LIMITS } as const;
    const opened = new ModelFiles(quantized);
    const { tensors } = opened.model;
    const matrices = [...tensors.values()].filter(({ dims }) => dims.length === 2);
    expect(unquantizedBytes(opened.model)).toBe(matrices.reduce((sum, { dims: [a = 0, b = 0] }) => sum + 2 * a * b, 0));
    const content = new MappedModel(opened.parts);
    const twin = await unquantized(host, { model: opened.model, content, fingerprint: '' });
    opened.close();
    const without = await loadOpened(host, twin, { path: quantized, ...options }, () => undefined);
    const expected = await loadModel(host, { path: plain, ...options }, () => undefined);
    expect(await logitsOf(without)).toEqual(await logitsOf(expected));
    without.release();
    expected.release();
  });
});

describe('the distance of logits', () => {
  const rows = (...values: number[]) => values.map((value) => Float32Array.of(1, value));
  const expected = rows(0, 0, 0, 0, 0, 0, 0, 0);

  it('is the mean of all rows, or half of the largest, or what a quarter of the rows is within', () => {
    expect(distance(expected, rows(0.5, 0.25, 8, 4, 2, 1, 0.125, 16), false)).toBe(8);
    expect(distance(expected, rows(3, 4, 3, 4, 3, 4, 3, 4), false)).toBe(Math.sqrt(12.5));
    expect(distance(expected, rows(0.5, 0.25, 8, 4, 2, 1, 0.125, 16), true)).toBe(0.25);
  });

  it('is NaN where a row has one, however many others are near', () => {
    const actual = rows(0, 0, 0, 0, 0, 0, 0, Number.NaN);
    expect(distance(expected, actual, true)).toBeNaN();
  });
});
