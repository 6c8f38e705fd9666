/**
 * Processor time of the gateway a generated token, and where it goes: the gateway before a fake executor, clients on
 * loopback in a process of their own.
 *
 *     node build/bench/bench/gateway/streams.js [--rounds N] [--profile] [LOAD...]
 *
 * Run it from the repository root, built as for measure.js. Without names it measures all loads. With `--profile` each is
 * run once more with a profiler, which costs time too.
 */
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { offer, startStack } from './processes.js';

interface Load {
  readonly streams: number;
  readonly connections: number;
  /** 0: as fast as they can. */
  readonly stepMs: number;
  readonly prompt: string;
  readonly tokens: number;
  readonly requests: number;
  readonly streamInterval?: number;
}

const LOADS: Readonly<Record<string, Load>> = {
  full: { streams: 128, connections: 4, stepMs: 0, prompt: '16', tokens: 1500, requests: 128 },
  paced: { streams: 128, connections: 4, stepMs: 8, prompt: '16', tokens: 1000, requests: 128 },
  joined: { streams: 128, connections: 4, stepMs: 8, prompt: '16', tokens: 1000, requests: 128, streamInterval: 4 },
  alone: { streams: 128, connections: 128, stepMs: 8, prompt: '16', tokens: 1000, requests: 128 },
  prompts: { streams: 128, connections: 4, stepMs: 24, prompt: '128:512', tokens: 128, requests: 768 },
  joinedPrompts: {
    streams: 128,
    connections: 4,
    stepMs: 24,
    prompt: '128:512',
    tokens: 128,
    requests: 768,
    streamInterval: 4,
  },
  few: { streams: 8, connections: 4, stepMs: 5, prompt: '16', tokens: 2000, requests: 8 },
};

interface Profile {
  readonly startTime: number;
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Parts that a frame's own time is counted for. */
const PARTS: readonly (readonly [part: string, of: RegExp])[] = [
  ['grpc-js', /@grpc\/grpc-js/],
  ['protobuf', /generated\/|@bufbuild/],
  ['scheduler', /replica\/scheduler|request\/sequence/],
  ['engine, executor link', /replica\//],
  ['tokens to text', /tokenizer\/|request\/completion/],
  ['stream writer, server', /api\//],
  ['requests', /gateway\/request\//],
  ['metrics', /prom-client|gateway\/metrics/],
  ['http2', /node:internal\/http2/],
  ['node streams, sockets', /node:(internal\/(streams|stream_base)|net|events)/],
  ['node, other', /node:/],
];

function partOf(name: string, url: string): string {
  if (url === '') return name === '(program)' ? 'native code, system calls' : name;
  return PARTS.find(([, of]) => of.test(url))?.[0] ?? 'other';
}

/** Microseconds of each part's own time, and of each function's, from a time of the monotonic clock on. */
function sumUp({ nodes, samples, timeDeltas, startTime }: Profile, fromUs: number): Map<string, number>[] {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const [parts, functions] = [new Map<string, number>(), new Map<string, number>()];
  let at = startTime;
  samples.forEach((id, i) => {
    const us = timeDeltas[i] as number;
    at += us;
    const { functionName = '?', url = '', lineNumber = 0 } = frames.get(id) ?? {};
    if (at < fromUs || functionName === '(idle)') return;
    const part = partOf(functionName, url);
    parts.set(part, (parts.get(part) ?? 0) + us);
    const where = `${functionName} ${url.split('/').slice(-2).join('/')}:${lineNumber + 1}`;
    functions.set(where, (functions.get(where) ?? 0) + us);
  });
  return [parts, functions];
}

function largest(times: ReadonlyMap<string, number> | undefined, tokens: number, count: number): string {
  return [...(times ?? [])]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([name, us]) => `    ${(us / tokens).toFixed(2).padStart(6)} µs  ${name}\n`)
    .join('');
}

interface Run {
  readonly us: number;
  readonly joined: number;
  readonly perSecond: number;
  readonly tokens: number;
  /** When what was measured began, microseconds of the monotonic clock. */
  readonly fromUs: number;
}

async function run(load: Load, profileFolder?: string): Promise<Run> {
  const { streams, connections, stepMs, prompt, tokens, requests, streamInterval } = load;
  const shape = { stepMs, maxSequences: streams, ...(streamInterval !== undefined && { streamInterval }) };
  const stack = await startStack({ ...shape, isLoopback: true, profileFolder });
  const offered = { clients: streams, 'prompt-tokens': prompt, connections, tokens, requests };
  // As long as it takes until what runs often is compiled.
  await offer(stack, { ...offered, requests: Math.max(streams, requests / 2) });
  const fromUs = Number(process.hrtime.bigint() / 1000n);
  const report = await offer(stack, { ...offered, seed: 2 });
  await stack.stop();
  if (report.tokens !== requests * tokens)
    throw new Error(`${report.tokens} tokens came: ${JSON.stringify(report.failed)}`);
  const us = report.gateway?.cpuUsPerToken ?? Number.NaN;
  return { us, joined: report.tokensPerChunk, perSecond: report.tokensPerSecond, tokens: report.tokens, fromUs };
}

const { values, positionals } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, profile: { type: 'boolean', default: false } },
  allowPositionals: true,
});
for (const name of positionals.length > 0 ? positionals : Object.keys(LOADS)) {
  const load = LOADS[name] as Load;
  const runs: Run[] = [];
  for (let round = 0; round < Number(values.rounds); round++) runs.push(await run(load));
  runs.sort((a, b) => a.us - b.us);
  const median = runs[runs.length >> 1];
  if (median !== undefined) {
    process.stdout.write(
      `${name}: ${median.us.toFixed(1)} µs a token (${runs.map(({ us }) => us.toFixed(1)).join(', ')}), ` +
        `${median.joined.toFixed(2)} tokens a chunk, ${median.perSecond.toFixed(0)} tokens/s\n`,
    );
  }
  if (!values.profile) continue;
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-profile-'));
  const { us, tokens, fromUs } = await run(load, folder);
  process.stdout.write(`  own time a token, profiled (${us.toFixed(1)} µs in all)\n`);
  for (const file of readdirSync(folder)) {
    const [parts, functions] = sumUp(JSON.parse(readFileSync(path.join(folder, file), 'utf8')) as Profile, fromUs);
    process.stdout.write(`${largest(parts, tokens, 16)}  functions\n${largest(functions, tokens, 30)}`);
  }
}
