// The executor without a gateway on a GPU: prefill, many sequences that generate, and one at a depth. One line of JSON a
// measurement; --profile adds what each kernel takes, launch by launch.
//
//   node bench/gpu/streams.mjs MODEL.gguf [--prefill 512,2048,8192] [--streams 1,8,32,64,128] [--depth 4096,16384]
//       [--prompts 128:512] [--tokens 128] [--step-tokens 512] [--profile] [--repeats 3]
//       [--gpus 0,1] [--split tensor] [--tensor-split 3,1] [--through-host] [--layers 80] [--without ROTATED_PRODUCT,SINGLE_TOKEN]
//
// --gpus: the model is split over them, between layers or into shards; --through-host: what crosses goes through the host's
// memory. --layers: the model's layers in turn, so many. --without: rules of src/executor/layers/fusions.ts that are left out.
import path from 'node:path';
import { WindowedBlocks } from '../../dist/cli/common/windowed-blocks.js';
import { ATTENTION_SPLIT, hostTileRows, KV_BLOCK_TOKENS, tileRows } from '../../dist/executor/kernels/index.js';
import * as fusions from '../../dist/executor/layers/fusions.js';
import { countsOf } from '../../dist/executor/load/graph-buckets.js';
import { openDevices } from '../../dist/executor/load/open-device.js';
import { COUNT_SAMPLES, COUNT_TILES, settle } from '../../dist/executor/model/step-counts.js';
import { StepRunner } from '../../dist/executor/steps/step-runner.js';
import { ExecuteRequest, SlotOpen } from '../../dist/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../dist/shared/sampling-schema.js';
import { benchArguments } from '../arguments.mjs';
import { loadRepeated } from './repeated-model.mjs';

const { values: options, positionals } = benchArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    device: { type: 'string', default: 'cuda' },
    prefill: { type: 'string', default: '' },
    streams: { type: 'string', default: '' },
    depth: { type: 'string', default: '' },
    prompts: { type: 'string', default: '128:512' },
    tokens: { type: 'string', default: '128' },
    'step-tokens': { type: 'string', default: '0' },
    repeats: { type: 'string', default: '3' },
    profile: { type: 'boolean', default: false },
    gpus: { type: 'string', default: '' },
    split: { type: 'string', default: 'layer' },
    layers: { type: 'string', default: '0' },
    'tensor-split': { type: 'string', default: '' },
    'through-host': { type: 'boolean', default: false },
    threads: { type: 'string' },
    without: { type: 'string', default: '' },
  },
});
const numbers = (text) => text.split(',').filter(Boolean).map(Number);
const [prefills, streams, depths] = [options.prefill, options.streams, options.depth].map(numbers);
const [shortest, longest = shortest] = options.prompts.split(':').map(Number);
const [tokens, repeats] = [Number(options.tokens), Number(options.repeats)];
/** Steps before the clock starts, and positions that a sequence has room for beyond what it uses. */
const WARM = 8;

const [file] = positionals;
const devices = openDevices({
  kind: options.device,
  gpus: numbers(options.gpus),
  ...(options.threads && { threads: Number(options.threads) }),
});
const [device] = devices;
function ruleOf(name) {
  const [, rule] = Object.entries(fusions).find(([own]) => own === name) ?? [];
  if (fusions.FUSIONS.includes(rule)) return rule;
  throw new Error(`no rule ${name} in fusions.ts`);
}
const shares = numbers(options['tensor-split']);
const context = repeats * (WARM + tokens) + KV_BLOCK_TOKENS + Math.max(longest, ...prefills, ...depths);
const model = await loadRepeated(
  devices,
  {
    path: file,
    kvCacheType: 'f16',
    fingerprint: '',
    maxContext: context,
    maxSequences: Math.max(1, ...streams),
    maxStepTokens: Number(options['step-tokens']),
    kvMemoryBytes: 0,
    split: options.split,
    throughHost: options['through-host'],
    without: options.without.split(',').filter(Boolean).map(ruleOf),
    ...(shares.length > 0 && { shares }),
  },
  Number(options.layers),
);
const { limits } = model.forward;
const { vocabularySize } = model.forward.model;
const runner = new StepRunner(device, model, 1n);
const windowed = new WindowedBlocks(limits.windowed);
let steps = 0n;
const step = (parts) => {
  steps += 1n;
  for (const { slot } of parts.opens ?? []) windowed.open(slot);
  const appends = (parts.slices ?? []).flatMap(({ slot, position, count }) => windowed.appends(slot, position, count));
  return runner.submit({ ...ExecuteRequest.create(), stepId: steps, epoch: 1n, appends, ...parts });
};
const tell = (kind, measured) => console.log(JSON.stringify({ model: path.basename(file), kind, ...measured }));
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
const rate = (count, milliseconds) => Number(((1000 * count) / milliseconds).toFixed(1));

let salt = 0;
let nextBlock = 1;
/** A sequence with a prompt that no other has, and room for what it generates. */
function sequence(slot, length, generated) {
  salt += 1;
  const prompt = Uint32Array.from({ length }, (_, i) => (salt * 7919 + i * 104_729) % (vocabularySize - 2));
  const count = Math.ceil((length + generated + 1) / KV_BLOCK_TOKENS);
  if (nextBlock + count > limits.kvBlocks)
    throw new Error(`no room for ${length} positions in ${limits.kvBlocks} blocks`);
  const blocks = Uint32Array.from({ length: count }, (_, i) => nextBlock + i);
  nextBlock += count;
  const open = {
    ...SlotOpen.create(),
    slot,
    tokenIds: Buffer.from(prompt.buffer),
    promptTokens: length,
    blockIds: Buffer.from(blocks.buffer),
    sampling: encodeSampling(NEUTRAL_SAMPLING),
  };
  return { slot, length, open };
}
const slice = (slot, position, count, sample) => ({ slot, position, count, sample, promptLogprobs: false });

/** Computes all prompts, in steps as full as they may be, two under way. @returns milliseconds */
async function prefill(sequences) {
  const began = performance.now();
  const pending = [];
  let [slices, opens, rows] = [[], [], 0];
  const flush = async () => {
    if (rows === 0) return;
    pending.push(step({ opens, slices }));
    [slices, opens, rows] = [[], [], 0];
    if (pending.length > 1) await pending.shift();
  };
  for (const { slot, length, open } of sequences) {
    opens.push(open);
    for (let position = 0; position < length; ) {
      const count = Math.min(length - position, limits.maxStepTokens - rows);
      slices.push(slice(slot, position, count, position + count === length));
      position += count;
      rows += count;
      if (rows === limits.maxStepTokens || slices.length === limits.maxSequences) await flush();
    }
  }
  await flush();
  for (const last of pending) await last;
  return performance.now() - began;
}

/**
 * Generates, two steps under way.
 *
 * @param after tokens that were generated before
 * @returns milliseconds of a step
 */
async function generate(sequences, after = 0) {
  const next = (i) => step({ slices: sequences.map(({ slot, length }) => slice(slot, length + after + i, 1, true)) });
  for (let i = 0; i < WARM; i++) await next(i);
  const began = performance.now();
  let coming = next(WARM);
  for (let i = WARM + 1; i < WARM + tokens; i++) {
    const current = coming;
    coming = next(i);
    await current;
  }
  await coming;
  return (performance.now() - began) / tokens;
}
const close = async (sequences) => {
  await step({ closes: sequences.map(({ slot }) => slot) });
  for (const { slot } of sequences) windowed.close(slot);
  nextBlock = 1;
};

function profile(what, counts) {
  if (!options.profile) return;
  const times = device.native.timeLaunches(model.plan, counts);
  const byName = new Map();
  for (const [i, kernel] of model.forward.kernels.entries()) {
    if (!(times[i] > 0)) continue;
    const { launches, us } = byName.get(kernel) ?? { launches: 0, us: 0 };
    byName.set(kernel, { launches: launches + 1, us: us + times[i] });
  }
  const sorted = [...byName].sort(([, a], [, b]) => b.us - a.us);
  const total = sorted.reduce((sum, [, { us }]) => sum + us, 0);
  tell('profile', {
    what,
    totalUs: Math.round(total),
    kernels: sorted.slice(0, 14).map(([kernel, { launches, us }]) => `${kernel} × ${launches}: ${us.toFixed(0)}`),
  });
}

await prefill([sequence(0, shortest, WARM)]).then(() => close([{ slot: 0 }]));
for (const length of prefills) {
  const times = [];
  let only;
  for (let i = 0; i < repeats; i++) {
    if (only !== undefined) await close(only);
    only = [sequence(0, length, 1)];
    times.push(await prefill(only));
  }
  tell('prefill', {
    tokens: length,
    stepTokens: limits.maxStepTokens,
    milliseconds: median(times),
    rate: rate(length, median(times)),
  });
  const rows = Math.min(length, limits.maxStepTokens);
  const counts = countsOf({ rows, splits: 0, mode: 'largest' });
  counts[COUNT_SAMPLES] = 1;
  settle(counts);
  const rowsOfTile = device.isHost ? hostTileRows : tileRows;
  counts[COUNT_TILES] = Math.ceil(rows / (rowsOfTile(model.forward.model, 'f16') ?? 1));
  // Before the sequence is closed: launches go by the rows of the last step.
  profile(`prefill ${length}`, counts);
  await close(only);
}
for (const count of streams) {
  const [filled, times] = [[], []];
  let prompts = 0;
  for (let round = 0; round < repeats; round++) {
    const all = Array.from({ length: count }, (_, i) =>
      sequence(i, shortest + ((i * 37) % (longest - shortest + 1)), WARM + tokens),
    );
    prompts = all.reduce((sum, { length }) => sum + length, 0);
    filled.push(await prefill(all));
    times.push(await generate(all));
    if (round === repeats - 1) {
      profile(
        `${count} streams`,
        countsOf(model.graphs.buckets.of(count, Math.ceil((longest + tokens) / ATTENTION_SPLIT), 'largest')),
      );
    }
    await close(all);
  }
  tell('streams', {
    count,
    prompts: options.prompts,
    prefill: rate(prompts, median(filled)),
    stepMs: Number(median(times).toFixed(3)),
    rate: rate(count, median(times)),
    rates: times.map((milliseconds) => rate(count, milliseconds)),
  });
}
for (const depth of depths) {
  const only = [sequence(0, depth, repeats * (WARM + tokens))];
  await prefill(only);
  const times = [];
  for (let round = 0; round < repeats; round++) times.push(await generate(only, round * (WARM + tokens)));
  const milliseconds = median(times);
  tell('depth', {
    depth,
    stepMs: Number(milliseconds.toFixed(3)),
    rate: rate(1, milliseconds),
    rates: times.map((each) => rate(1, each)),
  });
  profile(
    `depth ${depth}`,
    countsOf(model.graphs.buckets.of(1, Math.ceil((depth + tokens) / ATTENTION_SPLIT), 'largest')),
  );
  await close(only);
}
process.exit(0);
