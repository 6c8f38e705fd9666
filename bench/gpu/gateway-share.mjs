// Share of the executor's speed that reaches clients: tokens a second through gateway and gRPC, over those of the executor alone
// running the very steps that this run sent it. One line of JSON a number of clients.
//
//   node bench/gpu/gateway-share.mjs MODEL.gguf [--device cuda] [--clients 64,128] [--requests 6] [--prompts 128:512]
//       [--tokens 128] [--max-context 1024] [--repeats 3] [--stream-interval 1]
//
// Needs the built tree. Executor, gateway and clients are processes of their own; requests are for each client.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { benchArguments } from '../arguments.mjs';

const { values: options, positionals } = benchArguments(import.meta.url, {
  allowPositionals: true,
  options: {
    device: { type: 'string', default: 'cuda' },
    clients: { type: 'string', default: '64,128' },
    requests: { type: 'string', default: '6' },
    prompts: { type: 'string', default: '128:512' },
    tokens: { type: 'string', default: '128' },
    'max-context': { type: 'string', default: '1024' },
    repeats: { type: 'string', default: '3' },
    'stream-interval': { type: 'string', default: '1' },
  },
});
const here = path.dirname(fileURLToPath(import.meta.url));
const cli = path.join(here, '..', '..', 'dist', 'cli', 'main.js');
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-share-'));
const [executorAddress, address] = ['executor', 'gateway'].map((name) => `unix:${path.join(folder, `${name}.sock`)}`);
const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
const metrics = `127.0.0.1:${await freePort()}`;
const node = (script, args, stdio) => spawn(process.execPath, [path.resolve(script), ...args], { stdio });
const says = (stream, what, child) =>
  new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`ended with ${code} before it said "${what}"`)));
    createInterface({ input: stream }).on('line', (line) => {
      if (line.includes(what)) resolve();
      else if (!line.startsWith('{')) console.error(line);
    });
  });

const executor = node(
  path.join(here, 'recording-executor.mjs'),
  [executorAddress, options.device],
  ['pipe', 'pipe', 'pipe'],
);
const told = createInterface({ input: executor.stdout })[Symbol.asyncIterator]();
await says(executor.stderr, 'executor listening', executor);
const gateway = node(
  cli,
  [
    'serve',
    ...['--model', positionals[0], '--executor', executorAddress, '--listen', address, '--metrics-listen', metrics],
    ...['--max-context', options['max-context'], '--step-timeout-ms', '20000'],
    ...['--stream-interval', options['stream-interval']],
  ],
  ['ignore', 'pipe', 'ignore'],
);
await says(gateway.stdout, 'serving ', gateway);

let seed = 0;
const load = async (clients, requests) => {
  // Prompts that were never sent: nothing is found in the prefix cache.
  seed += 1;
  const args = ['bench', 'serve', '--address', address, '--metrics', metrics, '--json', '--clients', String(clients)];
  args.push('--requests', String(requests), '--prompt-tokens', options.prompts, '--tokens', options.tokens);
  args.push('--seed', String(seed));
  const { stdout } = await promisify(execFile)(process.execPath, [cli, ...args], { maxBuffer: 1 << 28 });
  return JSON.parse(stdout);
};
const ask = async (repeats) => {
  executor.stdin.write(`${repeats}\n`);
  return JSON.parse((await told.next()).value);
};
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];

try {
  for (const clients of options.clients.split(',').map(Number)) {
    await load(clients, clients);
    await ask(0);
    const rounds = [];
    for (let i = 0; i < Number(options.repeats); i++) {
      const report = await load(clients, clients * Number(options.requests));
      rounds.push({ report, ...(await ask(1)) });
    }
    const shares = rounds.map(({ servedMs, aloneMs }) => aloneMs[0] / servedMs);
    const [{ report, ...first }] = rounds;
    console.log(
      JSON.stringify({
        model: path.basename(positionals[0]),
        clients,
        share: median(shares),
        shares,
        tokensPerSecond: median(rounds.map(({ tokens, servedMs }) => (1000 * tokens) / servedMs)),
        alone: median(rounds.map(({ tokens, aloneMs }) => (1000 * tokens) / aloneMs[0])),
        first,
        report,
      }),
    );
  }
} finally {
  gateway.kill('SIGTERM');
  executor.kill('SIGTERM');
  rmSync(folder, { recursive: true, force: true });
}
