/**
 * Compares ROCmForge with llama.cpp (through node-llama-cpp) on one file: prefill of a prompt and decode of single tokens,
 * both in this process with the same number of threads. Runs alternate, so that other load of the machine affects both; on a shared
 * machine only the median ratio of several rounds is meaningful.
 *
 *   node compare.mjs --model M.gguf [--threads 2] [--prompt-tokens 128] [--tokens 16] [--rounds 5] [--json]
 *
 * Needs `npm run build` in the project and `npm ci` here.
 */
import os from 'node:os';
import { benchArguments } from '../arguments.mjs';

const { values: options } = benchArguments(
  import.meta.url,
  {
    options: {
      model: { type: 'string' },
      threads: { type: 'string', default: '2' },
      'prompt-tokens': { type: 'string', default: '128' },
      tokens: { type: 'string', default: '16' },
      rounds: { type: 'string', default: '5' },
      json: { type: 'boolean', default: false },
    },
  },
  ['model'],
);
// After the options: help needs neither a build nor the other program.
const { ExecutorLoop } = await import('../../dist/cli/bench/executor-loop.js');
const { getLlama, LlamaLogLevel } = await import('node-llama-cpp').catch((error) => {
  if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
  console.error('compare: llama.cpp is missing; run "npm ci" in bench/peers');
  process.exit(1);
});
const [threads, promptTokens, tokens, rounds] = ['threads', 'prompt-tokens', 'tokens', 'rounds'].map((name) =>
  Number(options[name]),
);
const contextSize = promptTokens + tokens + 1;

/** llama.cpp: one sequence, the same steps as ExecutorLoop's. */
async function openLlama() {
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error, maxThreads: threads });
  const model = await llama.loadModel({ modelPath: options.model });
  // Flash attention, as llama.cpp's own programs choose it.
  const sizes = { contextSize, batchSize: contextSize, flashAttention: true };
  const context = await model.createContext({ sequences: 1, threads, ...sizes });
  const sequence = context.getSequence();
  const next = { generateNext: { token: true } };
  return async (prompt, count) => {
    await sequence.clearHistory();
    const started = performance.now();
    await sequence.controlledEvaluate(prompt.map((id, i) => (i < prompt.length - 1 ? id : [id, next])));
    const prefillMs = performance.now() - started;
    const tokenMs = [];
    for (let i = 0; i < count; i++) {
      const before = performance.now();
      await sequence.controlledEvaluate([[100 + i, next]]);
      tokenMs.push(performance.now() - before);
    }
    return { prefillMs, tokenMs };
  };
}

const load = os.loadavg()[0];
if (threads + load > os.availableParallelism() + 0.5) {
  console.error(
    `compare: the load average is ${load.toFixed(1)} on ${os.availableParallelism()} processors: with ${threads} threads the ` +
      `rates of both are too low, llama.cpp's threads wait for each other, and the ratio says nothing; end other programs${threads > 1 ? ', or use fewer threads' : ''}`,
  );
}

const loop = await ExecutorLoop.open(options.model, contextSize, { kind: 'host', threads, kvCacheType: 'f16' });
const runPeer = await openLlama();
const rate = ({ prefillMs, tokenMs }) => ({
  prefill: (1000 * promptTokens) / prefillMs,
  decode: (1000 * tokenMs.length) / tokenMs.reduce((sum, ms) => sum + ms, 0),
});
const prompt = Array.from({ length: promptTokens }, (_, i) => (i * 7919) % 1000);

await loop.run(prompt, 2);
await runPeer(prompt, 2);
const samples = [];
for (let round = 0; round < rounds; round++) {
  samples.push({ ours: rate(await loop.run(prompt, tokens)), theirs: rate(await runPeer(prompt, tokens)) });
}

const spread = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return { min: sorted[0], median: sorted[Math.floor(sorted.length / 2)], max: sorted.at(-1) };
};
const report = { model: options.model, threads, promptTokens, tokens, rounds };
for (const what of ['prefill', 'decode']) {
  report[what] = {
    rocmforge: spread(samples.map(({ ours }) => ours[what])),
    llamaCpp: spread(samples.map(({ theirs }) => theirs[what])),
    ratio: spread(samples.map(({ ours, theirs }) => ours[what] / theirs[what])),
  };
}
if (options.json) {
  console.log(JSON.stringify(report, null, 2));
} else {
  console.log(`${options.model}, ${threads} threads, ${rounds} rounds; min / median / max`);
  const text = ({ min, median, max }, digits) => [min, median, max].map((value) => value.toFixed(digits)).join(' / ');
  for (const [what, unit] of [
    ['prefill', `${promptTokens} tokens, tok/s`],
    ['decode', 'tok/s'],
  ]) {
    const { rocmforge, llamaCpp, ratio } = report[what];
    console.log(
      `${what} (${unit}): rocmforge ${text(rocmforge, 1)}, llama.cpp ${text(llamaCpp, 1)}, ratio ${text(ratio, 2)}`,
    );
  }
}
process.exit(0);
