// One hash of a model's logits behind a long prompt, for each size of its chunks and number of other sequences: so that windows
// begin within chunks, and attention goes over many of them. One line a way; ends with 1 where two hashes differ.
//
//   node bench/gpu/chunks.mjs MODEL.gguf [--device cuda] [--prompt 5000] [--chunks 2048,512,100,33,1] [--others 0,16]

import { logitsHashes } from '../../dist/cli/verify/invariance.js';
import { loadModel } from '../../dist/executor/load/loaded-model.js';
import { openDevice } from '../../dist/executor/load/open-device.js';
import { benchArguments } from '../arguments.mjs';

const { values: options, positionals } = benchArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    device: { type: 'string', default: 'cuda' },
    prompt: { type: 'string', default: '5000' },
    chunks: { type: 'string', default: '2048,512,100,33,1' },
    others: { type: 'string', default: '0,16' },
  },
});
const numbers = (text) => text.split(',').map(Number);
const [chunks, others] = [numbers(options.chunks), numbers(options.others)];
const prompt = Number(options.prompt);
const device = openDevice({ kind: options.device });
const limits = {
  maxContext: 16 * Math.ceil((prompt + 8) / 16),
  maxSequences: Math.max(...others) + 1,
  // The others' prompts are at most 20 + 2 * others tokens each.
  maxStepTokens: Math.max(...chunks) + Math.max(...others) * (20 + 2 * Math.max(...others)),
};
const how = { path: positionals[0], kvCacheType: 'f16', fingerprint: '', kvMemoryBytes: 0, ...limits };
const model = await loadModel(device, how, () => undefined);
const hashes = new Set();
for (const chunk of chunks) {
  for (const beside of others) {
    const all = (await logitsHashes(device, model, chunk, beside, prompt)).map((hash) => hash.slice(0, 16));
    hashes.add(all.join());
    console.log(`chunks of ${chunk}, ${beside} others: ${all.join(' ')}`);
  }
}
model.release();
console.log(hashes.size === 1 ? 'one hash' : `${hashes.size} HASHES`);
process.exit(hashes.size === 1 ? 0 : 1);
