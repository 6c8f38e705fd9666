// Lets a kernel store far out of range in the middle of streams, and checks that nobody loses a token by it: the executor
// ends with its record, a new one with correct kernels serves, and every stream has the tokens of an undisturbed run.
//
//   node tools/plant-mistake.mjs --output DIR --target sm_90 --position 100
//   node tools/out-of-range-store.mjs --planted DIR --device cuda [--model FILE] [--streams N] [--tokens N]
//
// Needs the built tree (dist/, build/) and nothing else. Prints what happened as JSON; ends with 1 when a check fails.
import './temporary-folder.mjs';
import { existsSync, mkdtempSync, renameSync, symlinkSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

process.env.ROCMFORGE_LOG_LEVEL ??= 'silent';
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    planted: { type: 'string' },
    kernels: { type: 'string', default: path.join(root, 'build', 'kernels') },
    model: { type: 'string', default: path.join(root, 'models', 'demo.gguf') },
    device: { type: 'string', default: 'host' },
    streams: { type: 'string', default: '8' },
    tokens: { type: 'string', default: '160' },
  },
});
if (options.planted === undefined || !existsSync(options.planted)) {
  console.error('out-of-range-store: give --planted DIR, as tools/plant-mistake.mjs builds it');
  process.exit(1);
}
const load = (file) => import(path.join(root, 'dist', file));
const [
  { startGateway },
  { gatewayOptions },
  { stream },
  { RocmForgeClient },
  { GenerateStreamRequest },
  { describeFault },
] = await Promise.all([
  load('gateway/main.js'),
  load('cli/serve/gateway-options.js'),
  load('cli/common/client.js'),
  load('client/index.js'),
  load('shared/generated/rocmforge/v1/inference.js'),
  load('shared/fault-log.js'),
]);

const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-planted-'));
const current = path.join(folder, 'kernels');

/** Makes executors that start from now on use the kernels of this folder. */
function use(kernels) {
  const next = path.join(folder, 'next');
  symlinkSync(path.resolve(kernels), next);
  renameSync(next, current);
}

const prompts = Array.from({ length: Number(options.streams) }, (_, i) => `Once upon a time, number ${i},`);

/** All streams at once, greedy and seeded in turn. @returns the token ids of each */
function streams(client) {
  return Promise.all(
    prompts.map(async (text, i) => {
      const tokens = [];
      const request = GenerateStreamRequest.fromPartial({
        input: { $case: 'text', value: { text, parseSpecial: false } },
        sampling: { temperature: i % 2, seed: BigInt(i) },
        stop: { maxTokens: Number(options.tokens), ignoreEos: true },
      });
      await stream(client, request, ({ tokenIds }) => tokens.push(...tokenIds));
      return tokens;
    }),
  );
}

/** @param swap kernels for the executors after the first */
async function run(kernels, swap) {
  use(kernels);
  const address = `unix:${path.join(folder, 'gateway.sock')}`;
  const { model, device } = options;
  const served = { model, device, listen: address, kernels: current, kvCacheType: 'f16', maxSequences: prompts.length };
  const gateway = await startGateway(
    gatewayOptions({
      // Correct kernels are other code than those with the mistake.
      allowOtherArithmetic: true,
      ...served,
      stepTimeoutMs: 5000,
      maxRestarts: 5,
    }),
  );
  // The first executor has loaded its code: it keeps it, whatever the link says now.
  use(swap);
  const client = new RocmForgeClient(address);
  try {
    const tokens = await streams(client);
    return { tokens, faults: [...gateway.faults], executors: gateway.executorEpoch() };
  } finally {
    client.close();
    await gateway.stop();
  }
}

const undisturbed = await run(options.kernels, options.kernels);
const disturbed = await run(options.planted, options.kernels);
const same = disturbed.tokens.filter((tokens, i) => tokens.join() === undisturbed.tokens[i].join()).length;
const [fault] = disturbed.faults;
const checks = {
  'no fault in the undisturbed run': undisturbed.faults.length === 0,
  'one fault, and one executor after it': disturbed.faults.length === 1 && disturbed.executors === 2,
  'the fault was recorded in a step': fault?.record?.steps !== undefined,
  'on a GPU: a sticky error, exit code 86':
    options.device === 'host' || (fault?.exitCode === 86 && fault?.record?.error?.sticky === true),
  'every stream has the tokens of the undisturbed run': same === prompts.length,
  'and all of them': disturbed.tokens.every((tokens) => tokens.length === Number(options.tokens)),
};
const failed = Object.entries(checks).filter(([, passed]) => !passed);
const described = fault && describeFault(fault);
console.log(
  JSON.stringify({ streams: prompts.length, same, executors: disturbed.executors, described, fault, checks }, null, 2),
);
process.exit(failed.length === 0 ? 0 : 1);
