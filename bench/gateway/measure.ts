/**
 * Cost and latency of the gateway, before a fake executor. Every process but this one is the real thing or a double in a
 * process of its own; processor time is the gateway's alone, from its own metrics.
 *
 *     npm run build:ts && npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
 *     node build/bench/bench/gateway/measure.js [cpu] [servers] [tls] [pipeline] [prefix] [memory]
 *
 * Run it from the repository root; `memory` takes ten minutes and runs only when it is named. Ends with code 1 when a
 * bound does not hold.
 */
import { MetricsSnapshot } from '../../src/cli/bench/prometheus.js';
import { type IssuedCertificate, makeAuthority } from '../../test/support/certificates.js';
import { executorRate } from './executor-rate.js';
import { httpCostPerToken } from './http-load.js';
import { offer, type Stack, startEcho, startStack } from './processes.js';

interface Row {
  readonly what: string;
  readonly measured: string;
  readonly bound: string;
  readonly holds: boolean;
}

const rows: Row[] = [];

function record(what: string, measured: string, bound: string, holds: boolean): void {
  rows.push({ what, measured, bound, holds });
  process.stdout.write(`| ${what} | ${measured} | ${bound} | ${holds ? 'holds' : 'DOES NOT HOLD'} |\n`);
}

/** Microseconds of processor time for each streamed token: `streams` streams at once, after a warm-up. */
async function cpuPerToken(
  stack: Pick<Stack, 'address' | 'metrics'>,
  streams: number,
  tokens: number,
  options: Readonly<Record<string, string>> = {},
): Promise<{ readonly us: number; readonly tokensPerChunk: number }> {
  const load = { clients: streams, requests: streams, 'prompt-tokens': 16, connections: 8, ...options };
  await offer(stack, { ...load, tokens: Math.ceil(tokens / 4) });
  const report = await offer(stack, { ...load, tokens, seed: 2 });
  if (Object.keys(report.failed).length > 0 || report.tokens !== streams * tokens) {
    throw new Error(`${report.tokens} tokens came, failed: ${JSON.stringify(report.failed)}`);
  }
  return { us: report.gateway?.cpuUsPerToken ?? Number.NaN, tokensPerChunk: report.tokensPerChunk };
}

async function withStack<T>(options: Parameters<typeof startStack>[0], use: (stack: Stack) => Promise<T>): Promise<T> {
  const stack = await startStack(options);
  try {
    return await use(stack);
  } finally {
    await stack.stop();
  }
}

async function cpu(): Promise<void> {
  const us = ({ us: value, tokensPerChunk }: Awaited<ReturnType<typeof cpuPerToken>>): string =>
    `${value.toFixed(1)} µs (${tokensPerChunk.toFixed(2)} tokens a chunk)`;
  const loaded = await withStack({ stepMs: 1, maxSequences: 256 }, (stack) => cpuPerToken(stack, 256, 1000));
  record('CPU a token, 256 streams, 1 ms steps', us(loaded), '≤ 25 µs', loaded.us <= 25);

  const paced = await withStack({ stepMs: 50, maxSequences: 256 }, (stack) => cpuPerToken(stack, 256, 200));
  const echoServer = await startEcho(50);
  const echo = await cpuPerToken(echoServer, 256, 200);
  await echoServer.stop();
  const ratio = paced.us / echo.us;
  record(
    'CPU a token, 256 streams, 50 ms steps, of a plain grpc-js stream’s',
    `${us(paced)} / ${us(echo)} = ${ratio.toFixed(2)}`,
    '≤ 3, nothing joined',
    ratio <= 3 && paced.tokensPerChunk < 1.001,
  );

  // The second pair streams the same number of tokens a second, so that what a second costs by itself weighs the same.
  for (const [fewMs, manyMs, tokens] of [
    [1, 1, 500],
    [6, 96, 100],
  ] as const) {
    const few = await withStack({ stepMs: fewMs, maxSequences: 64 }, (stack) => cpuPerToken(stack, 64, 4 * tokens));
    const many = await withStack({ stepMs: manyMs, maxSequences: 1024 }, (stack) => cpuPerToken(stack, 1024, tokens));
    const growth = many.us / few.us;
    record(
      `CPU a token, 1,024 streams (${manyMs} ms steps) of 64 streams’ (${fewMs} ms)`,
      `${us(many)} / ${us(few)} = ${growth.toFixed(2)}`,
      '≤ 1.3',
      growth <= 1.3,
    );
  }
}

async function servers(): Promise<void> {
  await withStack({ stepMs: 50, maxSequences: 256 }, async (stack) => {
    const grpc = await cpuPerToken(stack, 256, 200);
    const http = await httpCostPerToken(stack.httpPort, stack.metrics, 256, 200);
    const ratio = http.us / grpc.us;
    record(
      'CPU a token, 256 streams, 50 ms steps, OpenAI’s completions over HTTP, of gRPC’s',
      `${http.us.toFixed(1)} µs (${http.events.toFixed(2)} events a token) / ${grpc.us.toFixed(1)} µs = ${ratio.toFixed(2)}`,
      '≤ 2',
      ratio <= 2,
    );
  });
}

/** Each round measures both, so that what else the machine does falls on both; the median of the rounds counts. */
async function tls(): Promise<void> {
  const authority = makeAuthority('bench');
  const ratios: Record<'gRPC' | 'HTTP', string[]> = { gRPC: [], HTTP: [] };
  const told = (plain: number, secured: number) =>
    `${(secured / plain).toFixed(2)} (${secured.toFixed(1)} / ${plain.toFixed(1)} µs)`;
  for (let round = 0; round < 3; round++) {
    const measured = async (certificate?: IssuedCertificate) =>
      await withStack({ stepMs: 50, maxSequences: 256, isLoopback: true, tls: certificate }, async (stack) => {
        const grpc = await cpuPerToken(stack, 256, 200, certificate && { ca: authority.ca });
        const http = await httpCostPerToken(stack.httpPort, stack.metrics, 256, 200, certificate && authority.caPem);
        return { grpc: grpc.us, http: http.us };
      });
    const plain = await measured();
    const secured = await measured(authority.issue('localhost'));
    ratios.gRPC.push(told(plain.grpc, secured.grpc));
    ratios.HTTP.push(told(plain.http, secured.http));
  }
  for (const [server, all] of Object.entries(ratios)) {
    all.sort((a, b) => Number.parseFloat(a) - Number.parseFloat(b));
    record(
      `CPU a token, 256 streams, 50 ms steps, ${server} over TLS, of ${server} in clear, lowest / median / highest of 3`,
      all.join(' / '),
      'median ≤ 1.5',
      Number.parseFloat(all[1] ?? '') <= 1.5,
    );
  }
}

async function pipeline(): Promise<void> {
  for (const [streams, stepMs, tokens, share] of [
    [1, 1, 2500, 0.9],
    [4, 1, 2500, 0.9],
    [8, 1, 2500, 0.9],
    [64, 10, 250, 0.95],
  ] as const) {
    // Three rounds of the executor alone and both depths in turn, so that what else the machine does falls on all.
    const shares: Record<number, number[]> = { 1: [], 2: [] };
    for (let round = 0; round < 3; round++) {
      const own = await executorRate(streams, stepMs);
      for (const pipelineDepth of [2, 1]) {
        const load = { clients: streams, requests: streams, 'prompt-tokens': 16, connections: Math.min(4, streams) };
        const report = await withStack({ stepMs, maxSequences: streams, pipelineDepth }, async (stack) => {
          await offer(stack, { ...load, tokens: Math.ceil(tokens / 4) });
          return await offer(stack, { ...load, tokens, seed: 2 });
        });
        const decodeMs = report.requestMs.p50 - report.timeToFirstTokenMs.p50;
        shares[pipelineDepth]?.push((1000 * (tokens - 1)) / decodeMs / own);
      }
    }
    const [deep, plain] = [2, 1].map((depth) => shares[depth]?.sort((a, b) => a - b) as number[]);
    const percent = (values: number[] = []): string => values.map((value) => (100 * value).toFixed(1)).join(' / ');
    record(
      `steps/s in % of the executor’s own, ${streams} streams, ${stepMs} ms steps, lowest / median / highest of 3`,
      `${percent(deep)} (depth 1: ${percent(plain)})`,
      `median ≥ ${100 * share}`,
      (deep?.[1] ?? 0) >= share,
    );
  }
}

async function prefix(): Promise<void> {
  const tokens = 4;
  for (const clients of [1, 50]) {
    const load = { clients, requests: 50, 'prompt-tokens': 1016, 'shared-prefix': 1000, tokens };
    const work: number[] = [];
    for (const prefixCache of [true, false]) {
      await withStack({ stepMs: 1, maxSequences: 64, prefixCache }, async (stack) => {
        await offer(stack, load);
        const { rows: computed } = await stack.counts();
        // The last token of a completion is never computed.
        work.push(computed - 50 * (tokens - 1));
      });
    }
    const [cached, plain] = work as [number, number];
    const saved = 1 - cached / plain;
    record(
      `prompt tokens computed, 50 requests, 1,000 of 1,016 shared, ${clients} at once`,
      `${cached} of ${plain}: ${(100 * saved).toFixed(1)} % less`,
      '≥ 95 % less',
      saved >= 0.95,
    );
  }
}

async function memory(): Promise<void> {
  const minutes = 10;
  await withStack({ stepMs: 20, maxSequences: 256 }, async (stack) => {
    const samples: number[] = [];
    const load = offer(stack, {
      clients: 300,
      seconds: minutes * 60,
      'prompt-tokens': '16:400',
      'shared-prefix': 128,
      prefixes: 20,
      tokens: '16:200',
      connections: 8,
    });
    let over = false;
    void load.finally(() => {
      over = true;
    });
    const began = performance.now();
    for (let minute = 1; !over && minute <= minutes; minute++) {
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, minute * 60_000 - (performance.now() - began))));
      const snapshot = await MetricsSnapshot.read(stack.metrics);
      samples.push(snapshot.get('process_resident_memory_bytes') / 2 ** 20);
      process.stderr.write(`minute ${minute}: ${samples.at(-1)?.toFixed(0)} MiB\n`);
    }
    const report = await load;
    // The first minutes fill the heap to its working size and the JIT with code.
    const [early, late] = [Math.max(...samples.slice(1, 4)), Math.max(...samples.slice(-3))];
    record(
      `resident memory over ${minutes} minutes, ${report.requests} requests, ${report.tokens} tokens`,
      `minutes 1 to ${samples.length}: ${samples.map((value) => value.toFixed(0)).join(', ')} MiB`,
      'minutes 8 to 10 ≤ 1.1 × minutes 2 to 4',
      late <= 1.1 * early && Object.keys(report.failed).length === 0,
    );
  });
}

const sections = { cpu, servers, tls, pipeline, prefix, memory };
const named = process.argv.slice(2);
const chosen = named.length > 0 ? named : ['cpu', 'servers', 'tls', 'pipeline', 'prefix'];
process.stdout.write('| what | measured | bound | |\n| --- | --- | --- | --- |\n');
for (const name of chosen) await sections[name as keyof typeof sections]();
process.exit(rows.every(({ holds }) => holds) ? 0 : 1);
