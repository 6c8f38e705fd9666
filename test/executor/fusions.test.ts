import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { synth } from '../../src/cli/synth/synth.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { FLOAT_TYPES, type FloatType } from '../../src/executor/kernels/index.js';
import { ADDED_NORM, FUSIONS, type Fusion, NORMED_APPEND, ROTATED_APPEND } from '../../src/executor/layers/fusions.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { doubleIsMissing, HipDouble } from '../support/hip-double.js';

const missing = doubleIsMissing();
if (missing !== undefined) console.log(`skipped on GPUs, no HIP device of the tests: ${missing}`);

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
const SHAPE = { hidden: 64, ffn: 128, layers: 2, heads: 2, kvHeads: 1, headDim: 64, vocabulary: 600, context: 512 };
const PROMPT = 40;
const files = new Map<string, string>();

/** Parts of families beside qwen2's: qwen3 normalizes heads of q and k, olmo2 what its layers add to the residual stream. */
const PARTS = {
  qwen2: {},
  qwen3: { parts: { qkNorm: 'head' } },
  olmo2: { parts: { norms: ['post_attention_norm', 'post_ffw_norm'], qkNorm: 'row' } },
} as const;
type Architecture = keyof typeof PARTS;

function modelOf(type: string, architecture: Architecture): string {
  const name = `${architecture}-${type}`;
  let output = files.get(name);
  if (output === undefined) {
    output = path.join(folder, `${name}.gguf`);
    const shape = { ...SHAPE, architecture, ropeBase: 10_000, tied: false, preTokenizer: 'qwen2' } as const;
    synth({ shape: { ...shape, ...PARTS[architecture] }, type, output });
    files.set(name, output);
  }
  return output;
}

/** Logits of a prompt's end, of three tokens after it, and of a step of many rows; and the kernels that were recorded. */
async function run(
  kind: 'host' | 'hip',
  type: string,
  without: readonly Fusion[],
  architecture: Architecture = 'qwen2',
  kvCacheType: FloatType = 'f16',
) {
  const device = openDevice({ kind });
  const model = await loadModel(
    device,
    {
      path: modelOf(type, architecture),
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

/** A family in whose plans the rule has a part. */
function architectureFor(rule: Fusion): Architecture {
  if (rule === ADDED_NORM) return 'olmo2';
  return rule === NORMED_APPEND ? 'qwen3' : 'qwen2';
}

/** A type of weights in whose plans each rule has a part. */
const typeFor = ({ replaces }: Fusion) => (replaces.includes('quantize_q8') ? 'Q8_0' : 'F16');

it.each(
  [ROTATED_APPEND, NORMED_APPEND].flatMap((rule) => FLOAT_TYPES.map((cache) => [rule.replaces, cache, rule] as const)),
)('on the host, %s in one launch gives the bits of the launches it replaces, %s', async (_name, cache, rule) => {
  const architecture = architectureFor(rule);
  const [fused, plain] = [
    await run('host', 'F16', [], architecture, cache),
    await run('host', 'F16', [rule], architecture, cache),
  ];
  expect(plain.kernels).not.toEqual(fused.kernels);
  expect(plain.logits).toEqual(fused.logits);
});

describe.skipIf(missing !== undefined)('on a GPU', () => {
  beforeAll(() => new HipDouble().install());

  it.each(FUSIONS.filter(({ on }) => on !== 'hopper').map((rule) => [rule.replaces, rule] as const))(
    '%s in one launch gives the bits of the launches it replaces',
    async (_name, rule) => {
      const type = typeFor(rule);
      const architecture = architectureFor(rule);
      const [fused, plain] = [await run('hip', type, [], architecture), await run('hip', type, [rule], architecture)];
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
