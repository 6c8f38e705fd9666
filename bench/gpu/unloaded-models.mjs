// Two models on one GPU, of which one is unloaded and brought back: the card's memory each time, the tokens, how long the next
// request waits for the load.
//
//   node bench/gpu/unloaded-models.mjs --chat A.gguf --small B.gguf [--device cuda] [--cycles 3]
//
// Ends with code 1 when memory comes back with more than 64 MB of difference, or tokens are others.
import { execFileSync, spawn } from 'node:child_process';
import os from 'node:os';
import path from 'node:path';
import { RocmForgeClient } from '../../dist/client/index.js';
import { executorsOf } from '../../tools/executors-of.mjs';
import { benchArguments } from '../arguments.mjs';

const { values } = benchArguments(import.meta.url, {
  options: {
    chat: { type: 'string' },
    small: { type: 'string' },
    device: { type: 'string', default: 'cuda' },
    cycles: { type: 'string', default: '3' },
  },
});
const SLACK_MB = 64;
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const address = `unix:${path.join(os.tmpdir(), `rocmforge-unloaded-models-${process.pid}.sock`)}`;
const child = spawn(
  process.execPath,
  [
    ...['dist/cli/main.js', 'serve', '--model', `chat=${values.chat}`, '--model', `small=${values.small}`],
    ...['--device', values.device, '--listen', address, '--idle-unload', '6'],
    ...['--max-sequences', '8', '--max-context', '1024', '--no-spare'],
  ],
  { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ROCMFORGE_LOG_LEVEL: 'error' } },
);
await new Promise((resolve, reject) => {
  child.stdout.on('data', (data) => /serving/.test(String(data)) && resolve());
  child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}`)));
});
const client = new RocmForgeClient(address);
const executors = () => executorsOf(child.pid).length;
/** MB that the card has given out, to all. */
const takenMb = () => {
  if (values.device !== 'cuda') return 0;
  const query = ['--query-gpu=memory.used', '--format=csv,noheader,nounits'];
  return Number(execFileSync('nvidia-smi', query, { encoding: 'utf8' }).split('\n')[0]) * 1.048576;
};

async function ask(model) {
  const ids = [];
  const began = performance.now();
  let first;
  const request = {
    model,
    input: { $case: 'tokens', value: { ids: Array.from({ length: 64 }, (_, i) => 300 + ((i * 7919) % 200)) } },
    sampling: { temperature: 0 },
    stop: { maxTokens: 32, ignoreEos: true },
  };
  for await (const event of client.generateStream(request)) {
    if (event.$case !== 'chunk') continue;
    first ??= performance.now() - began;
    ids.push(...event.value.tokenIds);
  }
  return { ids: ids.join(), firstMs: Math.round(first) };
}

const expected = { chat: (await ask('chat')).ids, small: (await ask('small')).ids };
const loaded = takenMb();
let isGood = true;
for (let cycle = 0; cycle < Number(values.cycles); cycle++) {
  // Only one of them is asked for.
  while (executors() > 1) {
    isGood &&= (await ask('chat')).ids === expected.chat;
    await wait(200);
  }
  await wait(500);
  const away = takenMb();
  const back = await ask('small');
  const again = await ask('chat');
  isGood &&= back.ids === expected.small && again.ids === expected.chat;
  const now = takenMb();
  isGood &&= Math.abs(now - loaded) <= SLACK_MB;
  const rounded = [loaded, away, now].map(Math.round);
  console.log(
    JSON.stringify({
      cycle,
      loadedMb: rounded[0],
      awayMb: rounded[1],
      backMb: rounded[2],
      firstMs: back.firstMs,
      isGood,
    }),
  );
}
client.close();
child.kill('SIGTERM');
await new Promise((resolve) => child.once('exit', resolve));
process.exit(isGood ? 0 : 1);
