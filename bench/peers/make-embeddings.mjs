/**
 * Writes what llama.cpp (through node-llama-cpp) makes of lists of token ids by an encoder: one embedding each, pooled as the file
 * says, not normalized. CPU, no flash attention, one input at a time, so that the numbers are the reference of test fixtures.
 *
 *   node bench/peers/make-embeddings.mjs --model build/encoders/bert-mean.gguf --inputs build/encoders/inputs.json -o out.json
 *
 * `--inputs` is a JSON array of arrays of ids, which begin and end with the tokens that the model puts around a text.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const SOURCE = 'llama.cpp through node-llama-cpp 3.22.1 on a CPU, no flash attention; embeddings are not normalized';

const { values: args } = parseArgs({
  options: {
    model: { type: 'string' },
    inputs: { type: 'string' },
    out: { type: 'string', short: 'o' },
  },
});
if (!args.model || !args.inputs || !args.out) {
  console.error('usage: make-embeddings.mjs --model M.gguf --inputs IDS.json -o OUT.json');
  process.exit(2);
}
const inputs = JSON.parse(readFileSync(args.inputs, 'utf8'));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: args.model, defaultContextFlashAttention: false });
const longest = Math.max(...inputs.map((ids) => ids.length));
const context = await model.createEmbeddingContext({ threads: 1, contextSize: longest + 8, batchSize: longest + 8 });
const cases = [];
for (const ids of inputs) {
  const { vector } = await context.getEmbeddingFor(ids);
  cases.push({ tokens: ids, embedding: vector.map((value) => Number(value.toPrecision(9))) });
}
await llama.dispose();
writeFileSync(args.out, `${JSON.stringify({ source: SOURCE, cases })}\n`);
console.log(`${cases.length} embeddings of ${cases[0].embedding.length} elements written`);
