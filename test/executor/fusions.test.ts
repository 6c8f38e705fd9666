import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { synth } from '../../src/cli/synth.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { FLOAT_TYPES, type FloatType } from '../../src/executor/kernels/index.js';
import { FUSIONS, type Fusion, TURNED_APPEND } from '../../src/executor/layers/fusions.js';
import { loadModel } from '../../src/executor/loaded-model.js';
import { openDevice } from '../../src/executor/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped on GPUs, no HIP device of the tests: ${missing}`);

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const SHAPE = { hidden: 64, ffn: 128, layers: 2, heads: 2, kvHeads: 1, headDim: 64, vocabulary: 600, context: 512 };
const PROMPT = 40;
const files = new Map<string, string>();

function modelOf(type: string): string {
  let output = files.get(type);
  if (output === undefined) {
    output = path.join(folder, `${type}.gguf`);
    const shape = { ...SHAPE, architecture: 'qwen2', ropeBase: 10_000, tied: false, preTokenizer: 'qwen2' } as const;
    synth({ shape, type, output });
    files.set(type, output);
  }
  return output;
}

/** Logits of a prompt's end, of three tokens after it, and of a step of many rows; and the kernels that were recorded. */
async function run(kind: 'host' | 'hip', type: string, without: readonly Fusion[], kvCacheType: FloatType = 'f16') {
  const device = openDevice({ kind });
  const model = await loadModel(
    device,
    {
      path: modelOf(type),
      kvCacheType,
      maxContext: 64,
      maxSequences: 2,
      maxStepTokens: 80,
      kvMemoryBytes: 0,
      fingerprint: '',
      without,
    },
    () => undefined,
  );
  const driver = new StepDriver(device, model, 1n);
  const opens = [0, 1].map((slot) => [slot, promptOf(slot, PROMPT, 500)] as const);
  const logits = [
    await driver.step(
      [0, 1].map((slot) => [slot, 0, PROMPT, true] as const),
      opens,
    ),
  ];
  for (let at = PROMPT; at < PROMPT + 3; at++) logits.push(await driver.step([[0, at, 1, true]]));
  const { kernels } = model.forward;
  model.release();
  return { logits, kernels };
}

/** A type of weights in whose plans each rule has a part. */
const typeFor = ({ replaces }: Fusion) => (replaces.includes('quantize_q8') ? 'Q8_0' : 'F16');

it.each(FLOAT_TYPES)(
  `on the host, ${TURNED_APPEND.replaces} in one launch gives the bits of the launches it replaces, %s`,
  async (kvCacheType) => {
    const [fused, plain] = [
      await run('host', 'F16', [], kvCacheType),
      await run('host', 'F16', [TURNED_APPEND], kvCacheType),
    ];
    expect(plain.kernels).not.toEqual(fused.kernels);
    expect(plain.logits).toEqual(fused.logits);
  },
);

describe.skipIf(missing !== undefined)('on a GPU', () => {
  beforeAll(() => new HipDouble().install());

  it.each(FUSIONS.map((rule) => [rule.replaces, rule] as const))(
    '%s in one launch gives the bits of the launches it replaces',
    async (_name, rule) => {
      const type = typeFor(rule);
      const [fused, plain] = [await run('hip', type, []), await run('hip', type, [rule])];
      expect(plain.kernels).not.toEqual(fused.kernels);
      expect(plain.logits).toEqual(fused.logits);
    },
  );

  it('bf16 likewise, without any of them', async () => {
    const [fused, plain] = [await run('hip', 'BF16', []), await run('hip', 'BF16', FUSIONS)];
    expect(plain.kernels.length).toBeGreaterThan(fused.kernels.length);
    expect(plain.logits).toEqual(fused.logits);
  });
});
