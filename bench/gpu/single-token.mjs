// Steps of one row on a GPU beside the same steps with rules of src/executor/layers/fusions.ts left out: whether logits have
// the same bits, behind contexts of one split and of several, in each family and type. One line a model; ends with 1 where
// one differs.
//
//   node bench/gpu/single-token.mjs --files A.gguf,B.gguf [--device cuda]
//   node bench/gpu/single-token.mjs --scratch FOLDER [--device cuda] [--families llama,qwen2,qwen3] [--types F16,Q8_0] [--hidden 2048]
import path from 'node:path';
import { synth } from '../../dist/cli/synth/synth.js';
import { promptOf } from '../../dist/cli/verify/invariance.js';
import { StepDriver } from '../../dist/cli/verify/step-driver.js';
import * as fusions from '../../dist/executor/layers/fusions.js';
import { loadModel } from '../../dist/executor/load/loaded-model.js';
import { openDevice } from '../../dist/executor/load/open-device.js';
import { benchArguments } from '../arguments.mjs';

const { values: options } = benchArguments(import.meta.url, {
  options: {
    files: { type: 'string' },
    scratch: { type: 'string' },
    device: { type: 'string', default: 'cuda' },
    families: { type: 'string', default: 'llama,qwen2,qwen3' },
    types: { type: 'string', default: 'F16,BF16,Q8_0,Q6_K,Q2_K,Q3_K_M,Q4_0,Q4_K_M,Q5_K_M,IQ4_XS' },
    hidden: { type: 'string', default: '2048' },
  },
});
const hidden = Number(options.hidden);
const CONTEXT = 1200;
const shared = {
  hidden,
  ffn: 2 * hidden,
  vocabulary: 600,
  context: 2048,
  ropeBase: 10_000,
  tied: false,
  layers: 4,
};
/** Heads of both sizes that attention on matrix units is built for. */
const FAMILIES = {
  llama: { architecture: 'llama', preTokenizer: 'llama-bpe', headDim: 64, heads: hidden / 64, kvHeads: 2 },
  qwen2: {
    ...{ architecture: 'qwen2', preTokenizer: 'qwen2', headDim: 64, heads: hidden / 64, kvHeads: 2 },
    parts: { biases: ['attn_q', 'attn_k', 'attn_v'] },
  },
  qwen3: {
    ...{ architecture: 'qwen3', preTokenizer: 'qwen2', headDim: 128, heads: hidden / 128, kvHeads: 2 },
    parts: { qkNorm: 'head' },
  },
  'qwen3-64': {
    ...{ architecture: 'qwen3', preTokenizer: 'qwen2', headDim: 64, heads: hidden / 64, kvHeads: 4 },
    parts: { qkNorm: 'head' },
  },
};
/** Contexts of one split and of two, of eight, and over the edge between. */
const BEHIND = [0, 126, 254, 1022];
const { SINGLE_TOKEN, ROTATED_PRODUCT, FUSIONS } = fusions;
const WAYS = [[], [ROTATED_PRODUCT], [SINGLE_TOKEN], FUSIONS];
const device = openDevice({ kind: options.device });

/** Logits of three rows, one a step, behind each number of positions. */
async function logitsOf(file, without) {
  const limits = { maxContext: CONTEXT, maxSequences: 1, maxStepTokens: 256, kvMemoryBytes: 0, fingerprint: '' };
  const model = await loadModel(device, { ...limits, path: file, kvCacheType: 'f16', without }, () => undefined);
  const driver = new StepDriver(device, model, 1n);
  let opens = [[0, promptOf(0, CONTEXT, model.forward.model.vocabularySize)]];
  const logits = [];
  let at = 0;
  const step = async (count, isSampled) => {
    const made = await driver.step([[0, at, count, isSampled]], opens);
    opens = [];
    at += count;
    return made;
  };
  for (const first of BEHIND) {
    while (at < first) await step(Math.min(256, first - at), false);
    for (let row = 0; row < 3; row++) logits.push(...(await step(1, true)));
  }
  const { kernels } = model.forward;
  model.release();
  return { bits: Buffer.concat(logits.map((row) => Buffer.from(Float32Array.from(row).buffer))), kernels };
}

/** The models, written when they are asked for. */
function* models() {
  if (options.files !== undefined) {
    for (const file of options.files.split(',')) yield { name: path.basename(file), file };
    return;
  }
  for (const family of options.families.split(',')) {
    for (const type of options.types.split(',')) {
      const file = path.join(options.scratch, `${family}-${type}.gguf`);
      synth({ shape: { ...shared, ...FAMILIES[family] }, type, output: file });
      yield { name: `${family} ${type}`, file };
    }
  }
}

let isEqual = true;
for (const { name, file } of models()) {
  const all = [];
  for (const without of WAYS) all.push(await logitsOf(file, without));
  const [first, ...others] = all;
  const equal = others.map(({ bits }) => bits.equals(first.bits));
  isEqual &&= equal.every(Boolean);
  const rotated = new Set(first.kernels.filter((kernel) => kernel.startsWith('linear_rotated')));
  console.log(
    JSON.stringify({ name, equal, launches: all.map(({ kernels }) => kernels.length), rotated: [...rotated] }),
  );
}
process.exit(isEqual ? 0 : 1);
