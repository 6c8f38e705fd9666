// CPU time a token of the gateways of several trees, measured by turns: what else runs on the machine slows all of them alike.
//   node bench/gateway/compare-trees.mjs [--api http] [--rounds 7] TREE TREE
// A tree is a checkout with `npm run build` and `npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .`. All stay up for the
// whole comparison, 256 streams at 50 ms steps, 200,000 tokens of warm-up each and 51,200 a round.
import { fork } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { benchArguments } from '../arguments.mjs';

const STREAMS = 256;
const TOKENS = 200;
const WARM_UP = 800;

const { values: options, positionals: trees } = benchArguments(import.meta.url, {
  options: { api: { type: 'string', default: 'grpc' }, rounds: { type: 'string', default: '7' } },
  allowPositionals: true,
});

/** Serves one tree in this process's children, and measures when it is told to. */
async function measureOne(tree) {
  const own = path.dirname(fileURLToPath(import.meta.url));
  const { httpCostPerToken } = await import(
    pathToFileURL(path.resolve(own, '../../build/bench/bench/gateway/http-load.js')).href
  );
  process.chdir(tree);
  const { startStack, offer } = await import(
    pathToFileURL(path.resolve('build/bench/bench/gateway/processes.js')).href
  );
  const stack = await startStack({ stepMs: 50, maxSequences: STREAMS });
  const load = { clients: STREAMS, requests: STREAMS, 'prompt-tokens': 16, connections: 8, seed: 2 };
  process.on('message', async (tokens) => {
    if (tokens === 0) {
      await stack.stop();
      process.exit();
    }
    const us =
      options.api === 'http'
        ? (await httpCostPerToken(stack.httpPort, stack.metrics, STREAMS, tokens, undefined, 0)).us
        : (await offer(stack, { ...load, tokens })).gateway.cpuUsPerToken;
    process.send(us);
  });
  process.send('ready');
}

async function compare() {
  const message = (child) => new Promise((resolve) => child.once('message', resolve));
  const ask = (child, tokens) => {
    const answered = message(child);
    child.send(tokens);
    return answered;
  };
  const children = [];
  for (const tree of trees) {
    const child = fork(fileURLToPath(import.meta.url), ['--api', options.api, path.resolve(tree)]);
    children.push(child);
    await message(child);
  }
  for (const child of children) await ask(child, WARM_UP);
  const measured = trees.map(() => []);
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const [i, child] of children.entries()) measured[i].push(await ask(child, TOKENS));
  }
  for (const [i, tree] of trees.entries()) {
    const all = measured[i];
    const mean = all.reduce((sum, us) => sum + us, 0) / all.length;
    const list = all.map((us) => us.toFixed(1)).join(' ');
    console.log(`${tree}: ${options.api} ${mean.toFixed(1)} µs a token (${list})`);
  }
  for (const child of children) child.send(0);
}

if (process.send === undefined) await compare();
else await measureOne(trees[0]);
