import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { UNIFORM_TYPES } from '../../src/cli/synth/mixtures.js';
import type { ModelShape } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth.js';
import type { Device } from '../../src/executor/device/device.js';
import { openDevice } from '../../src/executor/device/open-device.js';
import { type LoadedModel, loadModel } from '../../src/executor/model/loaded-model.js';
import { writeRandomModel } from '../support/random-model.js';
import { Driver, type Slice } from './support/driver.js';

const MAX_SEQUENCES = 17;
const MAX_STEP_TOKENS = 1024;
const BLOCKS_A_SEQUENCE = 32;

const tokensOf = (seed: number, length: number) =>
  Uint32Array.from({ length }, (_, i) => 3 + ((seed * 7919 + i * 104_729 + i * i) % 280));

/** A llama of two layers; one wide model for the formats of 256 elements, one whose rows end within a group of blocks. */
function writeSynthetic(type: string): string {
  const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), `${type}.gguf`);
  const wide = { hidden: 256, ffn: 512, heads: 4, kvHeads: 2, headDim: 64 };
  const ragged = { hidden: 160, ffn: 352, heads: 5, kvHeads: 1, headDim: 32 };
  const shared = { layers: 2, vocabulary: 512, context: 1024, ropeBase: 10_000, tied: false } as const;
  const shape: ModelShape = {
    architecture: 'llama',
    preTokenizer: 'llama-bpe',
    ...shared,
    ...(type.endsWith('K') ? wide : ragged),
  };
  synth({ shape, type, output });
  return output;
}

const MODELS: readonly (readonly [name: string, kvCacheType: 'f32' | 'f16', write: () => string])[] = [
  ['F32 weights and an f32 KV cache', 'f32', () => writeRandomModel({ type: 'F32' })],
  ...UNIFORM_TYPES.map((type) => [`${type} weights`, 'f16', () => writeSynthetic(type)] as const),
];

describe.each(MODELS)('with %s', (_name, kvCacheType, write) => {
  let device: Device;
  let model: LoadedModel;
  let generations = 0n;
  const prompt = tokensOf(1, 300);

  beforeAll(async () => {
    device = openDevice({ kind: 'host' });
    const options = {
      path: write(),
      kvCacheType,
      maxContext: BLOCKS_A_SEQUENCE * 16,
      maxSequences: MAX_SEQUENCES,
      maxStepTokens: MAX_STEP_TOKENS,
      kvMemoryBytes: 0,
      fingerprint: '',
    };
    model = await loadModel(device, options, () => undefined);
  });

  /** The prompt in chunks, then three decoded tokens: the hashes of the four rows of logits. */
  async function run(chunk: number, others = 0): Promise<string[]> {
    generations += 1n;
    const driver = new Driver(device, model, generations);
    const step = async (slices: readonly Slice[], opens?: readonly (readonly [number, Uint32Array])[]) =>
      (await driver.step(slices, opens)).map((logits) => createHash('sha256').update(logits).digest('hex'));
    const hashes: string[] = [];
    const slot = others;
    for (let position = 0; position < prompt.length; position += chunk) {
      const count = Math.min(chunk, prompt.length - position);
      const last = position + count === prompt.length;
      const companions = Array.from({ length: others }, (_, i) => i);
      const opens: (readonly [number, Uint32Array])[] =
        position === 0 ? [...companions.map((i) => [i, tokensOf(i + 2, 20 + 2 * i)] as const), [slot, prompt]] : [];
      const beside = companions.map((i) =>
        position === 0 ? ([i, 0, 20 + 2 * i, true] as const) : ([i, 20 + 2 * i - 1, 1, true] as const),
      );
      const sampled = await step([...beside, [slot, position, count, last]], opens);
      if (last) hashes.push(sampled.at(-1) as string);
    }
    for (let i = 0; i < 3; i++) hashes.push((await step([[slot, prompt.length + i, 1, true]])).at(-1) as string);
    return hashes;
  }

  it('a sequence has one hash of its logits: alone, and with its prompt in chunks of 1, 16, 17 and 500', async () => {
    const alone = await run(prompt.length);
    expect(new Set(alone).size).toBe(4);
    for (const chunk of [1, 16, 17, 500]) expect(await run(chunk), `chunks of ${chunk}`).toEqual(alone);
  });

  it('and the same among 16 others', async () => {
    const alone = await run(prompt.length);
    expect(await run(prompt.length, 16)).toEqual(alone);
    expect(await run(100, 16)).toEqual(alone);
  });
});
