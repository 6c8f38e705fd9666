import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { UNIFORM_TYPES } from '../../src/cli/synth/mixtures.js';
import type { ModelShape } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { INVARIANCE_PROMPT, logitsHashes } from '../../src/cli/verify/invariance.js';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { TENSOR_TYPES, type TensorTypeName } from '../../src/lib/gguf/tensor-types.js';
import { writeRandomModel } from '../support/random-model.js';

const MAX_SEQUENCES = 17;
const MAX_STEP_TOKENS = 1024;
const BLOCKS_A_SEQUENCE = 32;

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
    ...(TENSOR_TYPES[type as TensorTypeName].blockElements === 256 ? wide : ragged),
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

  it('a sequence has one hash of its logits: alone, and with its prompt in chunks of 1, 16, 17 and 500', async () => {
    const alone = await logitsHashes(device, model, INVARIANCE_PROMPT);
    expect(new Set(alone).size).toBe(4);
    for (const chunk of [1, 16, 17, 500])
      expect(await logitsHashes(device, model, chunk), `chunks of ${chunk}`).toEqual(alone);
  });

  it('and the same among 16 others', async () => {
    const alone = await logitsHashes(device, model, INVARIANCE_PROMPT);
    expect(await logitsHashes(device, model, INVARIANCE_PROMPT, 16)).toEqual(alone);
    expect(await logitsHashes(device, model, 100, 16)).toEqual(alone);
  });
});
