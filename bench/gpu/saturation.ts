// Activations beyond f16's range: a model whose norms before the FFN have weights of a million. As many are counted whatever the chunks
// of the prompt, none of a model as it should be, and the logits are numbers. Ends with 1 where not.
//
//   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
//   node build/bench/bench/gpu/saturation.js [--device cuda]
import { closeSync, openSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { type DeviceKind, openDevice } from '../../src/executor/load/open-device.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import { FileByteSource } from '../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../src/lib/gguf/reader.js';
import { writeQuantizedFamily } from '../../test/support/quantized-family.js';

const PROMPT = 48;
const { values: options } = parseArgs({ options: { device: { type: 'string', default: 'cuda' } } });

/** Every weight of the norms that are named so. */
function overwriteNorms(file: string, name: RegExp, value: number): void {
  const source = new FileByteSource(file);
  const { tensors } = readGguf(source);
  source.close();
  const descriptor = openSync(file, 'r+');
  for (const { offset, dims } of [...tensors.values()].filter((tensor) => name.test(tensor.name))) {
    const values = new Float32Array(dims[0] as number).fill(value);
    writeSync(descriptor, new Uint8Array(values.buffer), 0, values.byteLength, offset);
  }
  closeSync(descriptor);
}

let counted = 0;
const submit = StepRunner.prototype.submit;
StepRunner.prototype.submit = async function (step) {
  const response = await submit.call(this, step);
  counted += response.saturatedActivations;
  return response;
};

const device = openDevice({ kind: options.device as DeviceKind });
console.log(device.description);
for (const weights of ['Q8_0', 'Q4_K_M'] as const) {
  for (const norms of [undefined, /^blk\.\d+\.ffn_norm/] as const) {
    const file = writeQuantizedFamily('llama', weights);
    if (norms !== undefined) overwriteNorms(file, norms, 1e6);
    const limits = { maxContext: 320, maxSequences: 1, maxStepTokens: PROMPT, kvMemoryBytes: 0 };
    const asked = { path: file, kvCacheType: 'f16', fingerprint: '', ...limits } as const;
    const model = await loadModel(device, asked, () => undefined);
    const counts: number[] = [];
    let areNumbers = true;
    for (const chunk of [1, 7, PROMPT]) {
      counted = 0;
      const driver = new StepDriver(device, model, BigInt(chunk));
      const prompt = promptOf(1, PROMPT, model.forward.model.vocabularySize);
      for (let at = 0; at < PROMPT; at += chunk) {
        const slice = [0, at, Math.min(chunk, PROMPT - at), at + chunk >= PROMPT] as const;
        const rows = await driver.step([slice], at === 0 ? [[0, prompt]] : []);
        areNumbers &&= rows.every((row) => row.every(Number.isFinite));
      }
      counts.push(counted);
    }
    model.release();
    const isRight = new Set(counts).size === 1 && counts[0] !== undefined && counts[0] > 0 === (norms !== undefined);
    console.log(`${weights} ${norms ?? 'as it is'}: ${counts.join(', ')} counted${areNumbers ? '' : '; NOT FINITE'}`);
    if (!isRight || !areNumbers) process.exitCode = 1;
  }
}
