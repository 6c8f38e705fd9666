// Speed of a mixture of experts whose experts lie partly in host memory, and whether tokens depend on anything: three streams
// one after the other, eight at once, a long prompt, and a stream whose executor is killed.
//
//   node bench/gpu/host-experts.mjs --model M.gguf [--device cuda|hip] [--sequences 16] [--context 4096]
//     -- [options of serve, such as --device-memory 12GiB]
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { benchArguments } from '../arguments.mjs';

const [TOKENS, PROMPT, LONG_PROMPT, KILLED_AFTER] = [64, 64, 2048, 20];
const { values, positionals } = benchArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    device: { type: 'string', default: 'cuda' },
    sequences: { type: 'string', default: '16' },
    context: { type: 'string', default: '4096' },
  },
  allowPositionals: true,
});
if (values.model === undefined) throw new Error('give --model');

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-'));
const address = `unix:${path.join(folder, 'gateway.sock')}`;
const limits = ['--max-context', values.context, '--max-sequences', values.sequences];
const serve = ['serve', '--model', values.model, '--device', values.device, '--listen', address, ...limits];
const gateway = spawn(process.execPath, ['dist/cli/main.js', ...serve, ...positionals]);
await new Promise((resolve, reject) => {
  let shown = '';
  const look = (data) => {
    shown += data;
    if (/^serving /m.test(shown)) resolve();
  };
  gateway.stdout.on('data', look);
  gateway.stderr.on('data', look);
  gateway.once('exit', (code) => reject(new Error(`the gateway ended with ${code}: ${shown.slice(-1000)}`)));
});
const client = new RocmForgeClient(address);

/** A stream: its ids, the wait for the first, and tokens/s of the others. Odd numbers are sampled, even ones greedy. */
async function stream(number, { tokens = TOKENS, prompt = PROMPT, onToken = () => undefined } = {}) {
  const began = performance.now();
  const ids = [];
  let first = 0;
  const given = Array.from({ length: prompt }, (_, k) => 5 + ((number * 7919 + k * 104_729) % 20_000));
  for await (const event of client.generateStream({
    input: { $case: 'tokens', value: { ids: given } },
    sampling: { temperature: number % 2, seed: BigInt(number) },
    stop: { maxTokens: tokens, ignoreEos: true },
  })) {
    if (event.$case !== 'chunk') continue;
    if (ids.length === 0) first = performance.now();
    ids.push(...event.value.tokenIds);
    onToken(ids.length);
  }
  return { ids, waitMs: first - began, rate: (1000 * (ids.length - 1)) / (performance.now() - first) };
}

const same = (a, b) => String(a.ids) === String(b.ids);
try {
  // The first one also waits for what is loaded lazily.
  await stream(99, { tokens: 8 });
  const alone = [];
  for (let i = 0; i < 3; i++) alone.push(await stream(i));
  const began = performance.now();
  const together = await Promise.all(Array.from({ length: 8 }, (_, i) => stream(i)));
  const seconds = (performance.now() - began) / 1000;
  const long = await stream(50, { tokens: 4, prompt: LONG_PROMPT });
  let kills = 0;
  const killed = await stream(1, {
    onToken: (count) => {
      if (kills > 0 || count < KILLED_AFTER) return;
      kills += 1;
      process.kill(executorsOf(gateway.pid)[0], 'SIGKILL');
    },
  });
  const used =
    values.device === 'cuda' && execFileSync('nvidia-smi', ['--query-gpu=memory.used', '--format=csv,noheader']);
  console.log(positionals.join(' ') || 'all on the GPU if it fits');
  console.log(`  one stream ${alone.map(({ rate }) => rate.toFixed(1)).join(', ')} tokens/s`);
  console.log(`  eight streams ${((8 * TOKENS) / seconds).toFixed(1)} tokens/s, prompts included`);
  console.log(`  prompt of ${LONG_PROMPT}: ${((1000 * LONG_PROMPT) / long.waitMs).toFixed(0)} tokens/s`);
  console.log(`  equal among eight: ${alone.every((one, i) => same(one, together[i]))}`);
  console.log(`  equal behind ${kills} kill -9: ${same(killed, alone[1])}`);
  if (used) console.log(`  memory of the card in use: ${String(used).trim()}`);
} finally {
  client.close();
  gateway.kill('SIGTERM');
  await new Promise((resolve) => gateway.once('exit', resolve));
  rmSync(folder, { recursive: true, force: true });
}
