// Keeps streams running for minutes while the executor is killed every few seconds, and watches what piles up: lost
// streams, changed tokens, files, memory, KV blocks.
//
//   node --expose-gc tools/soak.mjs [--minutes 10] [--kill-seconds 15] [--streams 6] [--plot FILE.svg] [--json FILE]
//
// Needs the built tree. Prints a Markdown table; ends with 1 when a stream was lost or changed, or something leaked.
import './temporary-folder.mjs';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

process.env.ROCMFORGE_LOG_LEVEL ??= 'silent';
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    'kill-seconds': { type: 'string', default: '15' },
    streams: { type: 'string', default: '6' },
    tokens: { type: 'string', default: '120' },
    model: { type: 'string', default: path.join(root, 'models', 'demo.gguf') },
    device: { type: 'string', default: 'host' },
    plot: { type: 'string' },
    json: { type: 'string' },
    commit: { type: 'string' },
  },
});
if (globalThis.gc === undefined) {
  console.error('soak: run with node --expose-gc, or memory that is merely uncollected counts');
  process.exit(1);
}
const load = (file) => import(path.join(root, 'dist', file));
const [{ startGateway }, { gatewayOptions }, { stream }, { RocmForgeClient }, { GenerateStreamRequest }, { plot }] =
  await Promise.all([
    load('gateway/main.js'),
    load('cli/serve/gateway-options.js'),
    load('cli/common/client.js'),
    load('client/index.js'),
    load('shared/generated/rocmforge/v1/inference.js'),
    load('cli/bench/plot.js'),
  ]);
const commit =
  options.commit ?? execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();

const PROMPTS = 24;
const SAMPLE_MS = 5000;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-soak-')), 'gateway.sock')}`;
const gateway = await startGateway(
  gatewayOptions({
    model: options.model,
    device: options.device,
    listen: address,
    maxSequences: 8,
    // Less than all sequences at their longest: preemption happens too.
    kvMemoryBytes: 8 << 20,
    kvCacheType: 'f16',
    stepTimeoutMs: 5000,
  }),
);
const client = new RocmForgeClient(address);

/** Greedy and seeded in turn, a third of them behind one long beginning. */
function message(i) {
  const beginning =
    i % 3 === 0 ? 'Once upon a time there was a little girl who lived in a house by the sea. '.repeat(3) : '';
  return GenerateStreamRequest.fromPartial({
    input: { $case: 'text', value: { text: `${beginning}One day, child number ${i}`, parseSpecial: false } },
    sampling: { temperature: i % 2, seed: BigInt(i) },
    stop: { maxTokens: Number(options.tokens), ignoreEos: true },
  });
}
async function tokensOf(i) {
  const tokens = [];
  await stream(client, message(i), ({ tokenIds }) => tokens.push(...tokenIds));
  return tokens.join();
}

const files = (pid) => readdirSync(`/proc/${pid}/fd`).length;
const residentMb = (pid) => {
  const kb = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  if (kb === undefined) throw new Error(`process ${pid} has ended`);
  return Number(kb) / 1024;
};
const orNothing = (read) => {
  try {
    return read();
  } catch {
    return undefined;
  }
};
const blocksFree = () => gateway.replica.scheduler.blocks.freeCount;

const undisturbed = await Promise.all(Array.from({ length: PROMPTS }, (_, i) => tokensOf(i)));
await sleep(500);
const before = { files: files('self'), blocks: blocksFree() };
const began = performance.now();
const seconds = () => (performance.now() - began) / 1000;
const end = Number(options.minutes) * 60;
const samples = [];
const counts = { ended: 0, changed: 0, lost: 0, kills: 0 };
let next = 0;

async function reader() {
  while (seconds() < end) {
    const i = next++ % PROMPTS;
    try {
      if ((await tokensOf(i)) !== undisturbed[i]) counts.changed += 1;
      counts.ended += 1;
    } catch (error) {
      counts.lost += 1;
      console.error(`soak: a stream was lost at ${seconds().toFixed(1)} s: ${/** @type {Error} */ (error).message}`);
    }
  }
}
const killer = setInterval(() => {
  const pid = gateway.executorPid();
  if (pid === undefined) return;
  process.kill(pid, 'SIGKILL');
  counts.kills += 1;
}, Number(options['kill-seconds']) * 1000);
const sampler = setInterval(() => {
  globalThis.gc?.();
  const pid = gateway.executorPid();
  samples.push({
    s: seconds(),
    heapMb: process.memoryUsage().heapUsed / 2 ** 20,
    residentMb: residentMb('self'),
    files: files('self'),
    executorMb: pid === undefined ? undefined : orNothing(() => residentMb(pid)),
    executorFiles: pid === undefined ? undefined : orNothing(() => files(pid)),
    ...counts,
  });
}, SAMPLE_MS);
await Promise.all(Array.from({ length: Number(options.streams) }, reader));
clearInterval(killer);
clearInterval(sampler);
await sleep(1000);
gateway.replica.scheduler.check();
globalThis.gc();
const after = { files: files('self'), blocks: blocksFree() };
const recovery = (await gateway.metrics.registry.getMetricsAsJSON()).find(({ name }) =>
  name.endsWith('recovery_seconds'),
);
const recoveries = recovery.values.find(({ metricName }) => metricName?.endsWith('_count'))?.value ?? 0;
const recoverySum = recovery.values.find(({ metricName }) => metricName?.endsWith('_sum'))?.value ?? 0;
client.close();
const ran = seconds();
const { generations, quarantined, replayed } = {
  generations: gateway.executorEpoch(),
  ...gateway.replica.counts,
};
await gateway.stop();

/** Mean of the samples of one part of the run. */
const mean = (key, from, to) => {
  const values = samples.filter(({ s }) => s >= from * ran && s < to * ran).map((sample) => sample[key]);
  const known = values.filter((value) => value !== undefined);
  return known.reduce((sum, value) => sum + value, 0) / known.length;
};
const quarters = [0, 0.25, 0.5, 0.75].map((from) => [from, from + 0.25]);
const row = (name, key, digits) =>
  `| ${name} | ${quarters.map(([from, to]) => mean(key, from, to).toFixed(digits)).join(' | ')} |`;
console.log(
  [
    `${new Date().toISOString().slice(0, 10)}, commit ${commit}: ${(ran / 60).toFixed(1)} minutes, ${options.streams} streams at a time, a kill every ${options['kill-seconds']} s`,
    '',
    `${counts.ended} streams ended, ${counts.lost} lost, ${counts.changed} with other tokens than undisturbed; ${counts.kills} kills, ${generations} executors, ${replayed} sequences replayed, ${quarantined} quarantined; ${recoveries} recoveries of ${(recoverySum / Math.max(1, recoveries)).toFixed(2)} s in the mean.`,
    `Files open before and after: ${before.files}, ${after.files}. KV blocks free before and after: ${before.blocks}, ${after.blocks}.`,
    '',
    '| mean of each quarter | 1st | 2nd | 3rd | 4th |',
    '| --- | --- | --- | --- | --- |',
    row('gateway heap in use, MB', 'heapMb', 1),
    row('gateway resident, MB', 'residentMb', 0),
    row('gateway files', 'files', 1),
    row('executor resident, MB', 'executorMb', 0),
    row('executor files', 'executorFiles', 1),
  ].join('\n'),
);
const points = (key, of = samples) =>
  of.filter((sample) => sample[key] !== undefined).map((sample) => [sample.s, sample[key]]);
if (options.plot !== undefined) {
  const blue = '#2563eb';
  writeFileSync(
    options.plot,
    plot(`${counts.kills} kills of the executor in ${(ran / 60).toFixed(1)} minutes, ${counts.lost} streams lost`, [
      { title: 'gateway heap in use, MB', xLabel: 's', series: [{ color: blue, points: points('heapMb') }] },
      { title: 'gateway files', xLabel: 's', series: [{ color: blue, points: points('files') }] },
      {
        title: 'executor resident, MB',
        xLabel: 's',
        dots: true,
        series: [{ color: blue, points: points('executorMb') }],
      },
      {
        title: 'streams ended (blue), executors killed (red)',
        xLabel: 's',
        series: [
          { color: blue, points: points('ended') },
          { color: '#dc2626', points: points('kills') },
        ],
      },
    ]),
  );
}
if (options.json !== undefined)
  writeFileSync(options.json, JSON.stringify({ commit, ran, counts, before, after, samples }, null, 1));
// A leak of one sequence, file or kilobyte a kill would show: 40 kills, and a heap of some 20 MB.
const grewMb = mean('heapMb', 0.75, 1) - mean('heapMb', 0.25, 0.5);
const leaked = after.blocks !== before.blocks || after.files > before.files + 1 || grewMb > 1;
console.log(`\nheap of the 4th quarter over the 2nd: ${grewMb.toFixed(2)} MB`);
process.exit(counts.lost + counts.changed + quarantined > 0 || leaked ? 1 : 0);
