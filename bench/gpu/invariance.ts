// One hash of a sequence's logits whatever shares its steps, for products of real widths: models of one layer whose
// products are of 896, 2,048, 4,096 and 14,336 elements, each weight type. A prompt in chunks of 1 to all of it, and its
// last token in steps of 1 to 129 rows, whose others are a prompt's or a token each of as many sequences. One line a
// model; ends with 1 where one has two hashes.
//
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
//   node build/bench/bench/gpu/invariance.js [--device cuda] [--types F16,Q4_K_M] [--prompt 2048] [--widths 896:2048]
//       [--rows 1,64,65]
//
// With experts, `--widths HIDDEN:FFN:EXPERTS:USED`: 2048:768:128:8,1024:512:60:4,2048:256:200:12.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import type { ModelShape } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { type Slice, StepDriver } from '../../src/cli/verify/step-driver.js';
import type { Device } from '../../src/executor/device/device.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { type DeviceKind, openDevice } from '../../src/executor/load/open-device.js';

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    types: { type: 'string', default: 'F16,BF16,Q8_0,Q4_K_M,Q6_K' },
    prompt: { type: 'string', default: '2048' },
    widths: { type: 'string', default: '896:2048,4096:14336' },
    rows: { type: 'string', default: '1,2,8,9,16,17,32,33,64,65,128,129' },
  },
});
const PROMPT = Number(options.prompt);
const CHUNKS = [1, 2, 7, 16, 33, 64, 65, 128, 129, 500, 512, 1000, 2048].filter((chunk) => chunk <= PROMPT);
const ROWS = options.rows.split(',').map(Number);
const MOST_ROWS = Math.max(...ROWS);
const [TARGET, OTHER] = [0, 1];

let generations = 0n;

/** The model's logits after a prompt, each hash by how it came about. */
async function hashes(device: Device, model: LoadedModel): Promise<Map<string, string>> {
  const { vocabularySize: vocabulary } = model.forward.model;
  const prompt = promptOf(1, PROMPT, vocabulary);
  const all = new Map<string, string>();
  const begin = () => {
    generations += 1n;
    return new StepDriver(device, model, generations);
  };
  const hash = (rows: readonly Float32Array[]) =>
    createHash('sha256')
      .update(rows.at(-1) as Float32Array)
      .digest('hex')
      .slice(0, 16);

  for (const chunk of CHUNKS) {
    const driver = begin();
    for (let at = 0; at < PROMPT; at += chunk) {
      const slice: Slice = [TARGET, at, Math.min(chunk, PROMPT - at), at + chunk >= PROMPT];
      const rows = await driver.step([slice], at === 0 ? [[TARGET, prompt]] : []);
      if (slice[3]) all.set(`chunks of ${chunk}`, hash(rows));
    }
  }
  for (const rows of ROWS) {
    for (const isOne of rows > 1 ? [true, false] : [true]) {
      const driver = begin();
      const others = isOne ? [rows - 1] : Array.from({ length: rows - 1 }, () => 1);
      const opens = others.map((count, i) => [OTHER + i, promptOf(i + 2, Math.max(count, 1), vocabulary)] as const);
      await driver.step([[TARGET, 0, PROMPT - 1, false]], [[TARGET, prompt]]);
      const beside = others.flatMap((count, i): Slice[] => (count > 0 ? [[OTHER + i, 0, count, true]] : []));
      const sampled = await driver.step([...beside, [TARGET, PROMPT - 1, 1, true]], beside.length > 0 ? opens : []);
      all.set(`${rows} rows${isOne ? '' : ' of as many sequences'}`, hash(sampled));
    }
  }
  return all;
}

const device = openDevice({ kind: options.device as DeviceKind });
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-invariance-'));
console.log(device.description);
try {
  for (const widths of options.widths.split(',')) {
    const [hidden, ffn, count, used] = widths.split(':').map(Number) as [number, number, number?, number?];
    const headDim = hidden < 2048 ? 64 : 128;
    const shape = { architecture: 'llama', preTokenizer: 'llama-bpe', layers: 1, hidden, ffn, headDim } as const;
    const heads = hidden / headDim;
    const rest = { heads, kvHeads: heads % 4 === 0 ? heads / 4 : 2, vocabulary: 512, context: 4096, ropeBase: 10_000 };
    const experts =
      count === undefined || used === undefined
        ? {}
        : { architecture: 'qwen3moe', parts: { qkNorm: 'head' }, experts: { count, used, ffn } };
    for (const type of options.types.split(',')) {
      const file = path.join(folder, 'model.gguf');
      synth({ shape: { ...shape, ...rest, ...experts, tied: false } as ModelShape, type, output: file });
      const maxContext = Math.ceil(Math.max(PROMPT + 1, MOST_ROWS) / 16) * 16;
      const limits = { maxContext, maxSequences: MOST_ROWS, maxStepTokens: Math.max(PROMPT, MOST_ROWS) };
      const asked = { path: file, kvCacheType: 'f16', fingerprint: '', kvMemoryBytes: 0, ...limits } as const;
      const model = await loadModel(device, asked, () => undefined);
      const all = await hashes(device, model);
      model.release();
      const [first] = all.values();
      const others = [...all].filter(([, hash]) => hash !== first);
      const told = others.map(([how, hash]) => `${how}: ${hash}`).join(', ');
      console.log(`${widths} ${type}: ${all.size} ways, ${first}${told === '' ? '' : `; OTHER HASHES: ${told}`}`);
      if (others.length > 0) process.exitCode = 1;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
