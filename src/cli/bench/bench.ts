import type { DeviceStats } from '../../executor/device/device-stats.js';
import { ModelFiles } from '../../lib/gguf/model-files.js';
import { readModelParameters } from '../../lib/gguf/model-parameters.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { OptionValues } from '../../shared/option-table.js';
import { writeJson, writeText } from '../common/output.js';
import type { BENCH_OPTIONS } from './bench-commands.js';
import { type ClientRun, runClient } from './client-run.js';
import { ExecutorLoop, type LoopRun } from './executor-loop.js';
import { connectToProcess } from './gateway-process.js';
import { median, quantile, tokenRate } from './rates.js';

export interface BenchOptions extends OptionValues<typeof BENCH_OPTIONS> {
  readonly model: string;
}

const CLIENT_WARM_UP_MS = 2000;
/** Numbers of runs with prompts of another length are so far apart: no prompt is the beginning of another. */
const RUNS_APART = 1e6;
/** Tokens that the executor generates before it is measured. */
const WARM_UP_TOKENS = 4;

/** Results of `rocmforge bench`; numbers are medians over the repeats. */
export interface BenchReport {
  readonly model: string;
  readonly device: string;
  /** Bytes of weights that a token's step reads. */
  readonly weightBytes: number;
  readonly promptTokens: number;
  readonly tokens: number;
  /** Read bandwidth of the device, measured beside the rest, bytes a second. */
  readonly readBytesPerSecond: number;
  readonly executor: {
    readonly prefillTokensPerSecond: number;
    readonly decodeTokensPerSecond: number;
    readonly decodeBytesPerSecond: number;
    /** decodeBytesPerSecond in percent of readBytesPerSecond. */
    readonly percentOfRead: number;
    readonly timeToFirstTokenMs: number;
    readonly tokenMsP50: number;
    readonly tokenMsP99: number;
    readonly logitsHash: string;
  };
  /** Sensor values of the device before the runs and right after the last. */
  readonly before: DeviceStats;
  readonly after: DeviceStats;
  /** True if clocks were held down before, between or after the runs; absent where nothing tells. */
  readonly throttled?: boolean;
  /** Kernel times of one token's step, run launch by launch: slower in sum than the step itself. */
  readonly profile?: Awaited<ReturnType<ExecutorLoop['profile']>>;
  readonly client: {
    /** Absent where every run's tokens came in one message, as a few tokens of a small model may. */
    readonly decodeTokensPerSecond?: number;
    readonly timeToFirstTokenMs: number;
  };
}

/**
 * `rocmforge bench`: one sequence, in the executor alone and through gateway and gRPC, the two in turn, so that what else
 * the machine does falls on both.
 */
export async function bench(options: BenchOptions): Promise<void> {
  const reports = await measure(options);
  const [first] = reports as [BenchReport];
  if (options.json) writeJson(reports.length === 1 ? first : reports, 2);
  else if (reports.length === 1) writeText(formatBenchReport(first));
  else writeText(formatBenchReports(reports));
}

/** @returns the report of each length of the prompt */
export async function measure(options: BenchOptions): Promise<readonly BenchReport[]> {
  const { model, promptTokens, tokens } = options;
  const context = Math.max(...promptTokens) + tokens + 1;
  checkLengths(options, context);
  const maxStepTokens = Math.min(options.maxStepTokens ?? context, context);
  const { device: kind, gpu, threads, kernels, attention, kvCacheType, deviceMemoryBytes } = options;
  const cpuExperts = options.cpuExperts ?? (options.fit === 'off' ? 0 : ('auto' as const));
  const loop = await ExecutorLoop.open(model, context, {
    ...{ kind, gpu, threads, kernels, attention, kvCacheType, deviceMemoryBytes, maxStepTokens, cpuExperts },
  });
  const connection = await connectToProcess({ ...options, maxContext: context, maxSequences: 1, maxStepTokens });
  try {
    const reports: BenchReport[] = [];
    for (const count of promptTokens) {
      reports.push(await measureLength(options, count, RUNS_APART * reports.length, loop, connection));
    }
    return reports;
  } finally {
    await connection.close();
  }
}

/** @throws RocmForgeError the model's context has no room for prompt and generated tokens; errors of the file */
function checkLengths({ model, promptTokens, tokens }: BenchOptions, context: number): void {
  const files = new ModelFiles(model);
  try {
    const { contextLength } = readModelParameters(files.model);
    if (context <= contextLength) return;
    throw new RocmForgeError(
      'INVALID_OPTION',
      `--prompt-tokens ${Math.max(...promptTokens)} and --tokens ${tokens} need a context of ${context}; the model's is ${contextLength}`,
    );
  } finally {
    files.close();
  }
}

async function measureLength(
  { model, tokens, repeats, profile }: BenchOptions,
  promptTokens: number,
  firstRun: number,
  loop: ExecutorLoop,
  connection: Awaited<ReturnType<typeof connectToProcess>>,
): Promise<BenchReport> {
  // A prompt of its own for each run, or the prefix cache would answer for the prefill.
  const vocabulary = loop.model.forward.model.vocabularySize;
  const promptOf = (run: number) =>
    Array.from(
      { length: promptTokens },
      (_, i) => ((firstRun + run) * 7919 + i * 104_729) % Math.min(vocabulary - 2, 1 << 15),
    );
  const [loopRuns, clientRuns, bandwidths]: [LoopRun[], ClientRun[], number[]] = [[], [], []];
  await loop.run(promptOf(repeats), Math.min(WARM_UP_TOKENS, tokens));
  // The gateway is to be one that has served for a while, whose code is compiled.
  const warm = performance.now() + CLIENT_WARM_UP_MS;
  for (let run = repeats; run === repeats || performance.now() < warm; run++) {
    await runClient(connection, promptOf(run), tokens);
  }
  const stats = [loop.stats()];
  for (let run = 0; run < repeats; run++) {
    bandwidths.push(await loop.readBandwidth());
    loopRuns.push(await loop.run(promptOf(run), tokens));
    stats.push(loop.stats());
    clientRuns.push(await runClient(connection, promptOf(run), tokens));
  }
  const tokenMs = loopRuns.flatMap((run) => run.tokenMs);
  const decode = median(loopRuns.map((run) => tokenRate(run.tokenMs)));
  const prefillMs = median(loopRuns.map((run) => run.prefillMs));
  const read = Math.max(...bandwidths);
  const clientRates = clientRuns.flatMap((run) => run.tokensPerSecond ?? []);
  return {
    model,
    device: loop.description,
    weightBytes: loop.weightBytes,
    promptTokens,
    tokens,
    readBytesPerSecond: read,
    executor: {
      prefillTokensPerSecond: (1000 * promptTokens) / prefillMs,
      decodeTokensPerSecond: decode,
      decodeBytesPerSecond: decode * loop.weightBytes,
      percentOfRead: (100 * decode * loop.weightBytes) / read,
      timeToFirstTokenMs: prefillMs,
      tokenMsP50: quantile(tokenMs, 0.5),
      tokenMsP99: quantile(tokenMs, 0.99),
      logitsHash: loop.logitsHash(),
    },
    before: stats[0] as DeviceStats,
    after: stats.at(-1) as DeviceStats,
    ...(stats.some(({ throttled }) => throttled !== undefined) && {
      throttled: stats.some(({ throttled }) => throttled === true),
    }),
    ...(profile && { profile: await loop.profile(promptOf(repeats)) }),
    client: {
      ...(clientRates.length > 0 && { decodeTokensPerSecond: median(clientRates) }),
      timeToFirstTokenMs: median(clientRuns.map((run) => run.firstTokenMs)),
    },
  };
}

/** Several lengths of the prompt as a row each. */
export function formatBenchReports(reports: readonly BenchReport[]): string {
  const [{ model, weightBytes, device, tokens, readBytesPerSecond }] = reports as [BenchReport];
  const giga = (bytes: number): string => (bytes / 1e9).toFixed(1);
  const row = (cells: readonly string[]): string => `${cells.map((cell) => cell.padStart(12)).join('')}\n`;
  return [
    `${model}: ${giga(weightBytes)} GB of weights on ${device}\n`,
    `${tokens} tokens generated behind each prompt; plain reads reach ${giga(readBytesPerSecond)} GB/s\n\n`,
    row(['prompt', 'prefill', 'decode', 'of reads', 'p99', 'TTFT', 'by gRPC', 'TTFT']),
    row(['tokens', 'tok/s', 'tok/s', '%', 'ms/tok', 'ms', 'tok/s', 'ms']),
    ...reports.map(({ promptTokens, executor, client }) =>
      row([
        String(promptTokens),
        executor.prefillTokensPerSecond.toFixed(1),
        executor.decodeTokensPerSecond.toFixed(2),
        executor.percentOfRead.toFixed(0),
        executor.tokenMsP99.toFixed(1),
        executor.timeToFirstTokenMs.toFixed(0),
        client.decodeTokensPerSecond?.toFixed(2) ?? '-',
        client.timeToFirstTokenMs.toFixed(0),
      ]),
    ),
  ].join('');
}

/** The report as two rows for people. */
export function formatBenchReport(report: BenchReport): string {
  const { executor, client } = report;
  const clientRate = client.decodeTokensPerSecond;
  const giga = (bytes: number): string => (bytes / 1e9).toFixed(1);
  const row = (cells: readonly string[]): string =>
    `${cells.map((cell, i) => cell.padEnd(i === 0 ? 24 : 12)).join('')}\n`;
  return [
    `${report.model}: ${giga(report.weightBytes)} GB of weights on ${report.device}\n`,
    `${report.promptTokens} prompt tokens, ${report.tokens} generated; plain reads reach ${giga(report.readBytesPerSecond)} GB/s\n\n`,
    row(['', 'prefill', 'decode', 'weights', 'of reads', 'TTFT', 'p50', 'p99']),
    row(['', 'tok/s', 'tok/s', 'GB/s', '%', 'ms', 'ms/tok', 'ms/tok']),
    row([
      'executor loop',
      executor.prefillTokensPerSecond.toFixed(1),
      executor.decodeTokensPerSecond.toFixed(2),
      giga(executor.decodeBytesPerSecond),
      executor.percentOfRead.toFixed(0),
      executor.timeToFirstTokenMs.toFixed(0),
      executor.tokenMsP50.toFixed(1),
      executor.tokenMsP99.toFixed(1),
    ]),
    row([
      'gRPC client',
      '',
      ...(clientRate === undefined
        ? ['-', '-', '-']
        : [
            clientRate.toFixed(2),
            giga(clientRate * report.weightBytes),
            ((100 * clientRate * report.weightBytes) / report.readBytesPerSecond).toFixed(0),
          ]),
      client.timeToFirstTokenMs.toFixed(0),
    ]),
    `\nlogits ${executor.logitsHash}\n`,
    formatStats(report),
    ...(report.profile ?? []).map(
      ({ kernel, launches, microseconds }) =>
        `${kernel.padEnd(40)} ${String(launches).padStart(5)} launches ${microseconds.toFixed(1).padStart(9)} µs\n`,
    ),
  ].join('');
}

/** Clock, temperature and power before and after, and whether clocks were held down; empty where nothing is told. */
function formatStats({ before, after, throttled }: Pick<BenchReport, 'before' | 'after' | 'throttled'>): string {
  const pair = (name: string, unit: string, value: (stats: DeviceStats) => number | undefined): string[] => {
    const [from, to] = [value(before), value(after)].map((number) => number?.toFixed(0) ?? '?');
    return from === '?' && to === '?' ? [] : [`${name} ${from} → ${to} ${unit}`];
  };
  const told = [
    ...pair('clock', 'MHz', ({ clockMhz }) => clockMhz),
    ...pair('temperature', '°C', ({ temperatureC }) => temperatureC),
    ...pair('power', 'W', ({ powerW }) => powerW),
    ...(throttled === undefined ? [] : [`throttled: ${throttled ? 'yes' : 'no'}`]),
  ];
  return told.length === 0 ? '' : `${told.join(', ')}\n`;
}
