import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { LoadReport } from '../../src/cli/bench/load-report.js';
import type { FakeExecutorOptions } from '../../test/doubles/fake-executor.js';
import { writeRandomModel } from '../../test/support/random-model.js';

/** Run from the repository root: `dist/` holds the gateway, `build/bench/` this script and its doubles. */
const CLI = path.resolve('dist/cli/main.js');
const BUILT = path.resolve('build/bench');
const FIRST_TOKEN = 259;
const VOCABULARY = 299;

/** Options of a gateway before a fake executor. */
export interface StackOptions {
  readonly stepMs: number;
  readonly maxSequences: number;
  readonly pipelineDepth?: number;
  readonly kvBlocks?: number;
  readonly prefixCache?: boolean;
  readonly maxStepTokens?: number;
  readonly streamInterval?: number;
  /** A model file with so many tokens, in place of the random model. */
  readonly model?: { readonly path: string; readonly tokens: number };
  /** Listens at a port of loopback in place of a socket file. */
  readonly isLoopback?: boolean;
  /** Speaks TLS with this certificate, on loopback. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  /** File for a profile of the gateway's processor time, written when it ends; absent: none is made. */
  readonly profileFolder?: string | undefined;
}

/** Servers in processes of their own, and the addresses of the one that clients talk to. */
export interface Stack {
  readonly address: string;
  readonly metrics: string;
  /** Port of the HTTP server, on loopback. */
  readonly httpPort: number;
  /** Steps and rows that the fake executor ran. */
  counts(): Promise<{ readonly steps: number; readonly rows: number }>;
  stop(): Promise<void>;
}

// Run from the repository root, whichever folder this file is compiled to.
await import(path.resolve('tools', 'temporary-folder.mjs'));
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-bench-'));
const model = writeRandomModel({ contextLength: 65_536 });
let stacks = 0;

/** A fake executor alone; by default of the random model's vocabulary. */
export async function startFake(
  options: Omit<FakeExecutorOptions, 'vocabulary'> & Partial<FakeExecutorOptions> & { readonly listen: string },
): Promise<{ readonly process: ChildProcess; stop(): Promise<void> }> {
  const script = path.join(BUILT, 'test/doubles/fake-executor-process.js');
  const all = { vocabulary: { first: FIRST_TOKEN, size: VOCABULARY }, ...options };
  const child = await started(spawn(process.execPath, [script, JSON.stringify(all)]), /listening/);
  return { process: child, stop: () => ended(child) };
}

/** A gateway and a fake executor. */
export async function startStack(options: StackOptions): Promise<Stack> {
  const { stepMs, maxSequences, pipelineDepth = 2, kvBlocks = 100_000, prefixCache = true } = options;
  const number = ++stacks;
  const executorAddress = `unix:${path.join(folder, `executor-${number}.sock`)}`;
  const address =
    options.isLoopback || options.tls
      ? `127.0.0.1:${metricsPort(number + 10_000)}`
      : `unix:${path.join(folder, `gateway-${number}.sock`)}`;
  const metrics = `127.0.0.1:${metricsPort(number)}`;
  const vocabulary = { first: FIRST_TOKEN, size: options.model?.tokens ?? VOCABULARY };
  const { process: executor } = await startFake({ listen: executorAddress, stepMs, kvBlocks, vocabulary });
  const gatewayArguments = [
    'serve',
    '--model',
    options.model?.path ?? model,
    '--listen',
    address,
    '--executor',
    executorAddress,
  ];
  const httpPort = metricsPort(number + 5000);
  gatewayArguments.push('--http-listen', `127.0.0.1:${httpPort}`);
  gatewayArguments.push('--metrics-listen', metrics, '--max-sequences', String(maxSequences));
  gatewayArguments.push('--max-context', '65536', '--max-step-tokens', String(options.maxStepTokens ?? 2048));
  gatewayArguments.push('--pipeline-depth', String(pipelineDepth), '--max-queued-requests', '100000');
  gatewayArguments.push('--max-queued-requests-per-peer', '100000', '--max-streams-per-connection', '1024');
  if (options.tls) gatewayArguments.push('--tls-cert', options.tls.cert, '--tls-key', options.tls.key);
  if (options.streamInterval) gatewayArguments.push('--stream-interval', String(options.streamInterval));
  if (!prefixCache) gatewayArguments.push('--no-prefix-cache');
  const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'warn' };
  const { profileFolder } = options;
  const profile = profileFolder === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', profileFolder];
  const gateway = await started(spawn(process.execPath, [...profile, CLI, ...gatewayArguments], { env }), /serving/);
  return {
    address,
    metrics,
    httpPort,
    counts: async () => {
      const line = new Promise<string>((resolve) => executor.stdout?.once('data', (data) => resolve(String(data))));
      executor.kill('SIGUSR2');
      return JSON.parse(await line);
    },
    stop: async () => {
      await ended(gateway);
      await ended(executor);
    },
  };
}

/** The plain server that only streams. */
export async function startEcho(stepMs: number): Promise<Pick<Stack, 'address' | 'metrics' | 'stop'>> {
  const number = ++stacks;
  const address = `unix:${path.join(folder, `echo-${number}.sock`)}`;
  const port = metricsPort(number);
  const script = path.join(BUILT, 'bench/gateway/echo-server.js');
  const echo = await started(spawn(process.execPath, [script, address, String(port), String(stepMs)]), /listening/);
  return { address, metrics: `127.0.0.1:${port}`, stop: () => ended(echo) };
}

/** Offers a load from a process of its own. `load` are options of `rocmforge bench serve`. */
export async function offer(
  stack: Pick<Stack, 'address' | 'metrics'>,
  load: Readonly<Record<string, string | number>>,
): Promise<LoadReport> {
  const options = { address: stack.address, metrics: stack.metrics, 'first-token': FIRST_TOKEN, ...load };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const { stdout } = await promisify(execFile)(process.execPath, [CLI, 'bench', 'serve', '--json', ...args], {
    maxBuffer: 1 << 26,
  });
  return JSON.parse(stdout);
}

/** Below those that the system gives to connections. */
function metricsPort(number: number): number {
  return 10_000 + ((process.pid * 37 + number) % 12_000);
}

function started(child: ChildProcess, ready: RegExp): Promise<ChildProcess> {
  return new Promise((resolve, reject) => {
    child.stdout?.on('data', (data) => ready.test(String(data)) && resolve(child));
    child.stderr?.on('data', (data) => process.stderr.write(data));
    child.once('exit', (code) => reject(new Error(`${child.spawnargs.join(' ')} ended with ${code}`)));
  });
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve());
    child.kill('SIGTERM');
  });
}
