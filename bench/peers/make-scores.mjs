/**
 * Writes what llama.cpp (through node-llama-cpp) makes of lists of token ids by a reranker: the logits of its head, before
 * node-llama-cpp turns them into probabilities. CPU, no flash attention, one input at a time.
 *
 *   node bench/peers/make-scores.mjs --model build/rerankers/bert-dense.gguf --inputs build/rerankers/inputs.json -o out.json
 *
 * `--inputs` is a JSON array of arrays of ids: pairs with the tokens that the model puts around them. `--labels` is the number of
 * logits, by default one.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const SOURCE = 'llama.cpp through node-llama-cpp 3.22.1 on a CPU, no flash attention; scores are logits';

const { values: args } = parseArgs({
  options: {
    model: { type: 'string' },
    inputs: { type: 'string' },
    labels: { type: 'string', default: '1' },
    out: { type: 'string', short: 'o' },
  },
});
if (!args.model || !args.inputs || !args.out) {
  console.error('usage: make-scores.mjs --model M.gguf --inputs IDS.json [--labels N] -o OUT.json');
  process.exit(2);
}
const inputs = JSON.parse(readFileSync(args.inputs, 'utf8'));
const labels = Number(args.labels);
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath: args.model, defaultContextFlashAttention: false });
const longest = Math.max(...inputs.map((ids) => ids.length));
const context = await model.createRankingContext({ threads: 1, contextSize: longest + 8, batchSize: longest + 8 });
const cases = [];
for (const ids of inputs) {
  const probability = await context._evaluateRankingForInput(ids);
  const scores = [...context._llamaContext._ctx.getEmbedding(ids.length, labels)];
  if (Math.abs(1 / (1 + Math.exp(-scores[0])) - probability) > 1e-6) throw new Error('the logits are another input’s');
  cases.push({ tokens: ids, scores: scores.map((value) => Number(value.toPrecision(9))) });
}
mkdirSync(path.dirname(args.out), { recursive: true });
writeFileSync(args.out, `${JSON.stringify({ source: SOURCE, cases })}\n`);
console.log(`${cases.length} inputs with ${labels} scores each written`);
await llama.dispose();
