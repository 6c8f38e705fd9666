/**
 * Writes what llama.cpp (through node-llama-cpp) answers greedily to a list of prompts: the argmax token of each
 * step and the raw log-probabilities of the five most likely ones. CPU, f32 KV cache, no flash attention, one
 * request at a time, so that the numbers are the reference that test fixtures hold the kernels against.
 *
 *   node make-parity.mjs --model ../../models/demo.gguf --prompts prompts.json --steps 64 -o out.json
 *   node make-parity.mjs --model m.gguf --verify reference.json
 *
 * `--prompts` is a JSON array of texts, in which control tokens such as `<|im_start|>` are parsed. `--verify` takes
 * prompts and step count from a parity file, runs them again and compares: every token equal, every
 * |Δ log-probability| at most `--tolerance` (1e-4).
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { parseArgs } from 'node:util';
import { getLlama, LlamaLogLevel } from 'node-llama-cpp';

const TOP = 5;
const SOURCE =
  'llama.cpp through node-llama-cpp 3.22.1 on a CPU, no flash attention, f32 KV; tokens = argmax at each step, ' +
  'EOS not treated specially; top = [id, log-softmax of the raw logits] of the five most likely';

/** Raw logits `Map<id, logit>` → the `TOP` most likely `[id, log-softmax]`, ties to the lower id; sums in double. */
function topLogprobs(logits) {
  const entries = [...logits.entries()].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const max = entries[0][1];
  const logSum = max + Math.log(entries.reduce((sum, [, logit]) => sum + Math.exp(logit - max), 0));
  return entries.slice(0, TOP).map(([id, logit]) => [id, Number((logit - logSum).toFixed(6))]);
}

/**
 * One greedy run of `steps` tokens, one evaluation a step after the prompt's. Where the reference case has
 * `top: null` its token was forced, and is forced here too.
 */
async function runCase(model, sequence, prompt, steps, reference) {
  const text = model.tokenize(prompt, true);
  const { shouldPrependBosToken, bos } = model.tokens;
  const promptTokens = shouldPrependBosToken && text[0] !== bos ? [bos, ...text] : text;
  await sequence.clearHistory();
  const tokens = [];
  const top = [];
  let input = promptTokens;
  for (let step = 0; step < steps; step++) {
    const items = input.map((id, i) => (i < input.length - 1 ? id : [id, { generateNext: { logits: true } }]));
    const results = await sequence.controlledEvaluate(items);
    const best = topLogprobs(results[items.length - 1].next.logits);
    const forced = reference?.top[step] === null;
    const token = forced ? reference.tokens[step] : best[0][0];
    tokens.push(token);
    top.push(forced ? null : best);
    input = [token];
  }
  return { prompt, prompt_tokens: [...promptTokens], tokens, top };
}

/** Runs all prompts on one model, for `steps` tokens each or, given a reference, for as many as its cases have. */
async function runModel(path, prompts, steps, reference) {
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
  const model = await llama.loadModel({ modelPath: path });
  const context = await model.createContext({
    sequences: 1,
    threads: 1,
    contextSize: Math.min(model.trainContextSize, 2048),
    flashAttention: false,
    experimentalKvCacheKeyType: 'F32',
    experimentalKvCacheValueType: 'F32',
  });
  const sequence = context.getSequence();
  const cases = [];
  for (const [i, prompt] of prompts.entries()) {
    const known = reference?.[i];
    cases.push(await runCase(model, sequence, prompt, known?.tokens.length ?? steps, known));
  }
  const texts = cases.map(({ tokens }) => model.detokenize(tokens, true));
  await llama.dispose();
  return { cases, texts };
}

/** The smallest distance between the two best log-probabilities of any step: how firm the argmaxes are. */
function smallestGap(cases) {
  return Math.min(...cases.flatMap(({ top }) => top.map(([first, second]) => first[1] - second[1])));
}

/** Compares two lists of cases; returns the counts and the largest |Δ| over ids present in both top lists. */
function compare(reference, cases) {
  let steps = 0;
  let unequal = 0;
  let largest = 0;
  for (const [i, expected] of reference.entries()) {
    if (String(expected.prompt_tokens) !== String(cases[i].prompt_tokens)) {
      throw new Error(`case ${i} (${JSON.stringify(expected.prompt)}): the prompt's tokens differ`);
    }
    for (const [step, top] of expected.top.entries()) {
      if (top === null) continue;
      steps++;
      if (expected.tokens[step] !== cases[i].tokens[step]) {
        unequal++;
        break;
      }
      const found = new Map(cases[i].top[step]);
      for (const [id, logprob] of top) {
        if (found.has(id)) largest = Math.max(largest, Math.abs(found.get(id) - logprob));
      }
    }
  }
  return { steps, unequal, largest };
}

const { values: args } = parseArgs({
  options: {
    model: { type: 'string' },
    prompts: { type: 'string' },
    verify: { type: 'string' },
    steps: { type: 'string', default: '64' },
    tolerance: { type: 'string', default: '1e-4' },
    out: { type: 'string', short: 'o' },
    help: { type: 'boolean', default: false },
  },
});
if (args.help || !args.model || !(args.verify || (args.prompts && args.out))) {
  console.error(
    'usage: make-parity.mjs --model M.gguf (--prompts P.json -o OUT.json [--steps 64] | --verify REF.json)',
  );
  process.exit(args.help ? 0 : 2);
}
if (args.verify) {
  const reference = JSON.parse(readFileSync(args.verify, 'utf8')).cases;
  const prompts = reference.map(({ prompt }) => prompt);
  const { cases } = await runModel(args.model, prompts, undefined, reference);
  const { steps, unequal, largest } = compare(reference, cases);
  console.log(
    `${steps} steps, ${unequal} cases with an unequal token, largest |Δ log-probability| ${largest.toExponential(2)}`,
  );
  process.exitCode = unequal === 0 && largest <= Number(args.tolerance) ? 0 : 1;
} else {
  const prompts = JSON.parse(readFileSync(args.prompts, 'utf8'));
  const { cases, texts } = await runModel(args.model, prompts, Number(args.steps));
  const gap = Number(smallestGap(cases).toFixed(6));
  const header = { model: basename(args.model), source: SOURCE, smallest_top1_top2_gap: gap };
  writeFileSync(args.out, JSON.stringify({ ...header, cases }));
  for (const [i, text] of texts.entries()) console.log(`${JSON.stringify(prompts[i])} → ${JSON.stringify(text)}`);
  console.log(`${cases.length} cases written; smallest top-1/top-2 gap ${gap}`);
}
