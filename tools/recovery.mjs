// Kills the executor in the middle of a stream and tells where the time goes until the next token.
//
//   node tools/recovery.mjs [--model FILE] [--limit-ms 1500] [--repeats 5]
//
// Needs the built tree. Prints a Markdown table row a kill and their median. Other work on the machine makes everything
// slower: a calibration loop before and after each kill says by how much, as its mean time over its least one, and the limit
// is scaled by that. Ends with 1 when the median is over the scaled limit.
import './temporary-folder.mjs';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

process.env.ROCMFORGE_LOG_LEVEL ??= 'silent';
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    model: { type: 'string', default: path.join(root, 'models', 'demo.gguf') },
    device: { type: 'string', default: 'host' },
    'limit-ms': { type: 'string', default: '1500' },
    repeats: { type: 'string', default: '5' },
  },
});
const load = (file) => import(path.join(root, 'dist', file));
const [{ startGateway }, { gatewayOptions }, { stream }, { RocmForgeClient }, { GenerateStreamRequest }] =
  await Promise.all([
    load('gateway/main.js'),
    load('cli/serve/gateway-options.js'),
    load('cli/common/client.js'),
    load('client/index.js'),
    load('shared/generated/rocmforge/v1/inference.js'),
  ]);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => performance.now();

/** The same arithmetic each time, some 5 ms of it. @returns milliseconds */
function slice() {
  const began = now();
  let state = 1;
  for (let i = 0; i < 3e6; i++) state = (Math.imul(state, 1664525) + 1013904223) | 0;
  return state === 0 ? 0 : now() - began;
}
const slices = [];
/** Takes part in whatever the machine does, for a while. @returns slices of this time */
async function calibrate() {
  const taken = [];
  for (let i = 0; i < 40; i++) {
    taken.push(slice());
    await sleep(1);
  }
  slices.push(...taken);
  return taken;
}

const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-recovery-')), 'gateway.sock')}`;
let weightsAt = 0;
const { model, device } = options;
const served = { model, device, listen: address, maxContext: 512, maxSequences: 4, kvCacheType: 'f16' };
const gateway = await startGateway({
  ...gatewayOptions({ ...served, stepTimeoutMs: 20_000 }),
  onProgress: () => {
    weightsAt = now();
  },
});
const client = new RocmForgeClient(address);
const message = GenerateStreamRequest.fromPartial({
  input: { $case: 'tokens', value: { ids: Array.from({ length: 16 }, (_, i) => 300 + i) } },
  sampling: { temperature: 0 },
  stop: { maxTokens: 64, ignoreEos: true },
});

/** One stream with a kill at its 24th token. @returns when what had happened, in milliseconds after the kill */
async function kill() {
  let tokens = 0;
  let killedAt = 0;
  const at = {};
  const look = setInterval(() => {
    const state = gateway.executorState();
    if (killedAt !== 0 && state !== 'serving') at[state] ??= now() - killedAt;
    if (at.warming !== undefined && state === 'serving') at.serving ??= now() - killedAt;
  }, 1);
  await stream(client, message, ({ tokenIds: ids }) => {
    tokens += ids.length;
    if (killedAt === 0 && tokens >= 24) {
      process.kill(gateway.executorPid(), 'SIGKILL');
      killedAt = now();
    } else if (at.serving !== undefined) {
      at.token ??= now() - killedAt;
      at.weights ??= weightsAt - killedAt;
    }
  });
  clearInterval(look);
  return at;
}

const rows = [];
for (let i = 0; i < Number(options.repeats); i++) {
  const beforehand = await calibrate();
  const at = await kill();
  const around = [...beforehand, ...(await calibrate())];
  rows.push({ at, meanSlice: around.reduce((sum, ms) => sum + ms, 0) / around.length });
}
client.close();
await gateway.stop();

const least = Math.min(...slices);
const cells = rows.map(({ at, meanSlice }) => [
  at.starting,
  at.warming - at.starting,
  at.weights - at.warming,
  at.serving - at.weights,
  at.token - at.serving,
  at.token,
  meanSlice / least,
]);
const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const medians = cells[0].map((_, column) => median(cells.map((row) => row[column])));
const shown = (row) => row.map((value, i) => value.toFixed(i === 6 ? 2 : 0)).join(' | ');
const limit = Number(options['limit-ms']) * medians[6];
console.log(
  [
    `${path.basename(options.model)}; calibration loop: ${least.toFixed(2)} ms at its fastest`,
    '',
    '| | noticed, ms | process start | weights | warm-up and self-test | prefill to next token | kill to next token | calibration, times its fastest |',
    '| --- | --- | --- | --- | --- | --- | --- | --- |',
    ...cells.map((row, i) => `| kill ${i + 1} | ${shown(row)} |`),
    `| median | ${shown(medians)} |`,
    '',
    `limit ${options['limit-ms']} ms on an idle machine, ${limit.toFixed(0)} ms scaled: ${medians[5] <= limit ? 'held' : 'MISSED'}`,
  ].join('\n'),
);
process.exit(medians[5] <= limit ? 0 : 1);
