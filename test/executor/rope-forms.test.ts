import { afterAll, describe, expect, it } from 'vitest';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { ropeTable } from '../../src/executor/model/rope-table.js';
import { type BuilderValue, typed } from '../support/gguf-builder.js';
import { writeRandomModel } from '../support/random-model.js';
import type { RandomModelOptions } from '../support/random-model-options.js';

const device = openDevice({ kind: 'host', threads: 1 });
const TOKENS = 40;

/** The logits of each of a prompt's positions, with a file of these keys. */
async function logits(
  keys: Readonly<Record<string, BuilderValue>>,
  options: RandomModelOptions = {},
): Promise<number[]> {
  const metadata = Object.fromEntries(Object.entries(keys).map(([key, value]) => [`llama.${key}`, value]));
  const path = writeRandomModel({ ...options, metadata });
  const limits = { maxContext: 64, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0 };
  const model = await loadModel(device, { path, kvCacheType: 'f32', fingerprint: '', ...limits }, () => undefined);
  const driver = new StepDriver(device, model, 1n);
  const prompt = promptOf(3, TOKENS, 256);
  const rows = await driver.step([[0, 0, 1, true]], [[0, prompt]]);
  const all = [...rows[0]!];
  for (let i = 1; i < TOKENS; i++) all.push(...(await driver.step([[0, i, 1, true]]))[0]!);
  model.release();
  return all;
}

describe('RoPE keys compute what the file’s equivalent computes, bit for bit', () => {
  const plain = logits({});
  const linear = logits({ 'rope.scaling.type': 'linear', 'rope.scaling.factor': typed.f32(4) });
  afterAll(() => expect(device.usedBytes).toBe(0));

  it('linear scaling changes something', async () => {
    expect(await linear).not.toEqual(await plain);
  });

  it('a factor without a type, and the old scale_linear', async () => {
    expect(await logits({ 'rope.scaling.factor': typed.f32(4) })).toEqual(await linear);
    expect(await logits({ 'rope.scale_linear': typed.f32(4) })).toEqual(await linear);
  });

  it('linear without a factor, and none with one', async () => {
    expect(await logits({ 'rope.scaling.type': 'linear' })).toEqual(await plain);
    expect(await logits({ 'rope.scaling.type': 'none', 'rope.scaling.factor': typed.f32(4) })).toEqual(await plain);
  });

  it('an attention factor is its square on every score: one of 1/2 is a query of 1/4', async () => {
    // Powers of two change exponents alone, so that both ways round alike.
    const scaled = { 'blk.0.attn_q.weight': 0.25, 'blk.1.attn_q.weight': 0.25 };
    const halved = await logits({ 'rope.scaling.attn_factor': typed.f32(0.5) });
    expect(halved).toEqual(await logits({}, { scaled }));
    expect(halved).not.toEqual(await plain);
    const type = { 'rope.scaling.type': 'none', 'rope.scaling.attn_factor': typed.f32(0.5) };
    expect(await logits(type)).toEqual(halved);
  });
});

describe('the table of rotations', () => {
  it('is cosine and sine times the attention factor, in double precision, rounded once', () => {
    const rope = { dimensions: 8, base: 500, factor: 3, magnitude: Math.fround(0.7) };
    const { cosine, sine } = ropeTable(rope, 50, Float32Array.of(1, 2, 1.5, 8));
    for (let position = 0; position < 50; position++) {
      for (let j = 0; j < 4; j++) {
        const angle = (position * (500 ** (-j / 4) / [1, 2, 1.5, 8][j]!)) / 3;
        const off = (value: number | undefined, exact: number) => Math.abs(value! - Math.fround(0.7) * exact);
        expect(off(cosine[position * 4 + j], Math.cos(angle))).toBeLessThan(2 ** -24);
        expect(off(sine[position * 4 + j], Math.sin(angle))).toBeLessThan(2 ** -24);
      }
    }
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('refuses a divisor of %d', (divisor) => {
    const rope = { dimensions: 4, base: 500, factor: 1, magnitude: 1 };
    expect(() => ropeTable(rope, 5, Float32Array.of(1, divisor))).toThrow(
      expect.objectContaining({ reason: 'GGUF_INVALID', message: expect.stringContaining('at 1') }),
    );
  });
});
