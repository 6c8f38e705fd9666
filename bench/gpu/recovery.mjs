// Time from the loss of an executor to the next token of each stream, with a spare executor, with kept memory alone, and
// without either.
//
//   rocmforge synth --shape llama-3.1-8b --type Q4_K_M -o build/8b.gguf
//   node bench/gpu/recovery.mjs --model build/8b.gguf --device cuda [--streams 64] [--prompt 1000] [--kills 5]
//     -- [options of serve, such as --gpus 0,1 --split tensor]
//   node bench/gpu/recovery.mjs --model models/demo.gguf --device host --streams 8 --prompt 100
//   node bench/gpu/recovery.mjs --model build/8b.gguf --interval 1000 --kills 20 --tokens 3000
//
// With --interval the streams run once, and an executor is killed each time so many milliseconds have passed, whether there is a
// spare or not. Ends with code 1 when a stream has other tokens than undisturbed.
import { spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { freePort } from '../../tools/free-port.mjs';
import { benchArguments } from '../arguments.mjs';

const config = {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'cuda' },
    streams: { type: 'string', default: '64' },
    prompt: { type: 'string', default: '1000' },
    tokens: { type: 'string', default: '400' },
    kills: { type: 'string', default: '5' },
    vocabulary: { type: 'string', default: '1024' },
    modes: { type: 'string', default: 'spare,keeper,plain' },
    // SIGKILL from outside, or SIGABRT as for a fault of the executor's own.
    signal: { type: 'string', default: 'SIGKILL' },
    interval: { type: 'string' },
    // Milliseconds from a spare's readiness to the streams of the next kill: graphs are captured then.
    settle: { type: 'string', default: '0' },
  },
  allowPositionals: true,
};
const { values, positionals } = benchArguments(import.meta.url, config, ['model']);
const [streams, promptTokens, maxTokens, kills, vocabulary] = [
  'streams',
  'prompt',
  'tokens',
  'kills',
  'vocabulary',
].map((name) => Number(values[name]));
const MODES = { spare: ['--spare'], keeper: ['--no-spare'], plain: ['--no-keeper', '--no-spare'] };
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const percentile = (numbers, share) =>
  [...numbers].sort((a, b) => a - b)[Math.max(0, Math.ceil(share * numbers.length) - 1)] ?? 0;
let servers = 0;

async function serve(mode) {
  const address = `unix:${path.join(os.tmpdir(), `rocmforge-recovery-${process.pid}-${++servers}.sock`)}`;
  const metrics = `127.0.0.1:${await freePort()}`;
  const began = performance.now();
  const args = ['--model', values.model, '--device', values.device, '--listen', address, '--metrics-listen', metrics];
  const context = String(promptTokens + maxTokens + 16);
  const limits = ['--max-context', context, '--max-sequences', String(streams), '--max-streams-per-connection', '1000'];
  const child = spawn(
    process.execPath,
    ['dist/cli/main.js', 'serve', ...args, ...limits, ...MODES[mode], ...positionals],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ROCMFORGE_LOG_LEVEL: process.env.ROCMFORGE_LOG_LEVEL ?? 'fatal' },
    },
  );
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (data) => /serving/.test(String(data)) && resolve());
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
  const loadMs = performance.now() - began;
  const client = new RocmForgeClient(address);
  const metric = async (name) => {
    const text = await (await fetch(`http://${metrics}/metrics`)).text();
    return Number(new RegExp(`^rocmforge_${name}(?:\\{[^}]*\\})? ([\\d.]+)`, 'm').exec(text)?.[1] ?? Number.NaN);
  };
  return {
    client,
    loadMs,
    metric,
    /** Process ids of executors, the oldest first. */
    executors: () => executorsOf(child.pid),
    stop: () =>
      new Promise((resolve) => {
        child.once('exit', resolve);
        client.close();
        child.kill('SIGTERM');
      }),
  };
}

/** Resolves to the milliseconds until a process is gone. */
async function endOf(pid) {
  const killedAt = performance.now();
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return performance.now() - killedAt;
    }
    await wait(1);
  }
}

const request = (i) => ({
  input: {
    $case: 'tokens',
    value: {
      ids: Array.from({ length: promptTokens }, (_, j) => 300 + ((i * 7919 + j * 104_729) % (vocabulary - 300))),
    },
  },
  sampling: i % 2 === 0 ? { temperature: 0 } : { temperature: 0.9, seed: BigInt(i) },
  stop: { maxTokens, ignoreEos: true },
});

/** Runs all streams at once; when each token of each came, and which it was. */
function offer({ client }) {
  const runs = Array.from({ length: streams }, () => ({ ids: [], at: [], error: undefined }));
  const all = Promise.all(
    runs.map(async (run, i) => {
      try {
        for await (const event of client.generateStream(request(i))) {
          if (event.$case !== 'chunk') continue;
          const now = performance.now();
          for (const id of event.value.tokenIds) {
            run.ids.push(id);
            run.at.push(now);
          }
        }
      } catch (error) {
        run.error = error;
      }
    }),
  );
  return { runs, all };
}

/** Kills at an interval while the streams run. */
async function killAtIntervals(mode, server, undisturbed) {
  const { runs, all } = offer(server);
  while (runs.some(({ ids }) => ids.length < 20)) await wait(5);
  let isOver = false;
  void all.then(() => {
    isOver = true;
  });
  let killed = 0;
  while (killed < kills && !isOver) {
    const [active] = server.executors();
    if (active !== undefined) {
      process.kill(active, values.signal);
      killed += 1;
    }
    await wait(Number(values.interval));
  }
  await all;
  const lost = runs.filter(({ error }) => error !== undefined).length;
  const changed = runs.filter(({ ids }, i) => ids.join() !== undisturbed.runs[i].ids.join()).length;
  const longest = runs.reduce((most, { at }) => Math.max(most, ...at.slice(1).map((time, i) => time - at[i])), 0);
  const { signal, interval } = values;
  console.log(
    JSON.stringify({ mode, signal, interval, kills: killed, lost, changed, longestPauseMs: Math.round(longest) }),
  );
  return lost === 0 && changed === 0 && killed === kills;
}

let isGood = true;
for (const mode of values.modes.split(',')) {
  const server = await serve(mode);
  // The second time prompts are found: what is timed is decoding.
  await offer(server).all;
  const undisturbed = offer(server);
  await undisturbed.all;
  if (values.interval !== undefined) {
    isGood = (await killAtIntervals(mode, server, undisturbed)) && isGood;
    await server.stop();
    continue;
  }
  const begun = Math.max(...undisturbed.runs.map(({ at }) => at[0]));
  const late = undisturbed.runs.flatMap(({ at }) => at.filter((time) => time > begun));
  const perSecond = (1000 * late.length) / (late.reduce((a, b) => Math.max(a, b)) - begun);
  const [gaps, pauses, ends] = [[], [], []];
  let steady = [];
  for (let kill = 0; kill < kills; kill++) {
    if (mode === 'spare') while ((await server.metric('executor_spares')) !== 1) await wait(20);
    await wait(Number(values.settle));
    const { runs, all } = offer(server);
    while (runs.some(({ ids }) => ids.length < 20)) await wait(5);
    const [active] = server.executors();
    steady = runs.flatMap(({ at }) => at.slice(10).map((time, i) => time - at[9 + i]));
    const killedAt = performance.now();
    process.kill(active, values.signal);
    ends.push(await endOf(active));
    await all;
    for (const [i, { ids, at, error }] of runs.entries()) {
      // Some tokens are still on their way: the first that took about as long as any comes from the next executor. Another may
      // be waited for while a further spare starts.
      const waits = at.map((time, j) => (time > killedAt ? time - at[j - 1] : 0));
      const longest = Math.max(...waits);
      const next = at[waits.findIndex((wait) => wait >= longest / 2)];
      pauses.push(longest);
      if (error !== undefined || !(next > killedAt)) console.log(`stream ${i}: ${error?.message ?? 'had ended'}`);
      else gaps.push(next - killedAt);
      isGood &&= error === undefined && ids.join() === undisturbed.runs[i].ids.join();
    }
  }
  const rounded = Object.fromEntries(
    Object.entries({
      loadMs: server.loadMs,
      tokensPerSecond: perSecond,
      stepMs: percentile(steady, 0.5),
      // Time that the system took to end the killed process.
      endMs: percentile(ends, 0.5),
      medianMs: percentile(gaps, 0.5),
      p99Ms: percentile(gaps, 0.99),
      longestMs: Math.max(...gaps),
      longestPauseMs: Math.max(...pauses),
    }).map(([name, value]) => [name, Math.round(10 * value) / 10]),
  );
  const [kept, recomputed] = [
    await server.metric('recovery_kept_tokens_total'),
    await server.metric('recovery_recomputed_tokens_total'),
  ];
  console.log(
    JSON.stringify({ mode, signal: values.signal, kills, gaps: gaps.length, ...rounded, kept, recomputed, isGood }),
  );
  await server.stop();
}
process.exit(isGood ? 0 : 1);
