import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect as connectSocket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HealthService } from '../../src/shared/generated/grpc/health/v1/health.js';
import { InferenceServiceService } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { packageRoot } from '../../src/shared/package.js';
import { FakeExecutor } from '../doubles/fake-executor.js';
import { endProcess } from '../support/command-line.js';
import { FAKE_VOCABULARY } from '../support/fake-gateway.js';
import { writeRandomModel } from '../support/random-model.js';
import { ReflectionClient } from '../support/reflection-client.js';

const MB = 1 << 20;
const KB = 1 << 10;
/** The gateway's memory above that in quiet. */
const MOST_MB = 150;
const CALLS = 500;
const REFLECTION = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';

/** A message as gRPC frames it. */
function framed(message: Uint8Array, isCompressed = false): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(isCompressed ? 1 : 0, 0);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** A field of bytes or text. */
function field(number: number, value: Uint8Array): Buffer {
  const length: number[] = [];
  for (let left = value.length; ; left >>>= 7) {
    length.push(left > 127 ? (left & 127) | 128 : left);
    if (left <= 127) break;
  }
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), value]);
}

/** `ServerReflectionRequest.file_containing_symbol`. */
const question = (symbol: Uint8Array) => field(4, symbol);

describe('what calls of many messages hold of the gateway’s memory', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  const socketFile = path.join(folder, 'gateway.sock');
  let executor: FakeExecutor;
  let gateway: ChildProcess;
  let client: ReflectionClient;

  beforeAll(async () => {
    executor = new FakeExecutor({ vocabulary: FAKE_VOCABULARY, kvBlocks: 100, stepMs: 0 });
    const address = `unix:${path.join(folder, 'executor.sock')}`;
    await executor.listen(address);
    const options = {
      ...{ model: writeRandomModel({ contextLength: 4096 }), listen: `unix:${socketFile}`, executor: { address } },
      ...{ maxSequences: 4, maxStepTokens: 512, kvMemoryBytes: 0, kvCacheType: 'f32', pipelineDepth: 2 },
      ...{ prefixCache: true, stepTimeoutMs: 60_000, maxQueuedRequests: 64, maxQueuedTokens: 1 << 20, maxRestarts: 5 },
      ...{ requestTimeoutMs: 5000, unreadTimeoutMs: 5000 },
    };
    const script = path.join(packageRoot, 'test/support/gateway-process.mjs');
    const env = { ...process.env, ROCMFORGE_LOG_LEVEL: 'silent' };
    gateway = spawn(process.execPath, ['--expose-gc', script, JSON.stringify(options)], { env });
    gateway.stderr?.pipe(process.stderr);
    await new Promise((resolve) => gateway.stdout?.once('data', resolve));
    client = new ReflectionClient(`unix:${socketFile}`);
    await client.ask({ listServices: '' });
  });
  afterAll(async () => {
    client?.close();
    await executor?.stop();
    if (gateway) await endProcess(gateway, 'SIGKILL');
  });

  const residentMb = () =>
    Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))?.[1]) / 1024;

  /** Calls that are open, and how many the gateway has ended, after a collection. */
  async function counts(): Promise<{ open: number; ended: number }> {
    const line = new Promise<string>((resolve) => gateway.stdout?.once('data', (data) => resolve(String(data))));
    gateway.kill('SIGUSR2');
    const { calls, refused, slowSenders, slowReaders } = JSON.parse(await line) as Record<string, number>;
    return { open: calls ?? 0, ended: (refused ?? 0) + (slowSenders ?? 0) + (slowReaders ?? 0) };
  }

  /** Opens calls that send this and read nothing, until the gateway has ended all of them. @returns MB more, at most */
  async function mostWhile(path: string, sent: Buffer): Promise<number> {
    const { ended } = await counts();
    const session = deafClient();
    const quiet = residentMb();
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, residentMb());
    }, 20);
    const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
    for (let i = 0; i < CALLS; i++) {
      const stream = session.request({ ...headers, 'grpc-encoding': 'gzip' });
      stream.on('error', () => undefined).write(sent);
    }
    await expect
      .poll(
        async () => {
          const now = await counts();
          return now.open === 0 && now.ended - ended >= CALLS;
        },
        { interval: 250 },
      )
      .toBe(true);
    clearInterval(watch);
    session.destroy();
    console.log(`${quiet.toFixed(0)} MB in quiet, ${(most - quiet).toFixed(0)} MB more at most`);
    expect((await client.ask({ listServices: '' }))[0]?.listServicesResponse?.service.length).toBeGreaterThan(0);
    return most - quiet;
  }

  /** A client that gives the gateway no window to send into. */
  function deafClient(): ClientHttp2Session {
    const connection = { createConnection: () => connectSocket(socketFile), settings: { initialWindowSize: 0 } };
    return connectHttp2('http://localhost', { ...connection, maxSessionMemory: 1000 }).on('error', () => undefined);
  }

  it('is bounded for short questions whose long answers nobody reads', async () => {
    const short = framed(question(Buffer.from('rocmforge.v1.GenerateStreamRequest')));
    const sent = Buffer.concat(Array.from({ length: Math.floor((15 * KB) / short.length) }, () => short));
    expect(await mostWhile(REFLECTION, sent)).toBeLessThanOrEqual(MOST_MB);
  });

  it.each([
    REFLECTION,
    InferenceServiceService.generateStream.path,
    InferenceServiceService.tokenize.path,
    HealthService.check.path,
  ])('is bounded for messages that unpack to large ones, to %s', async (path) => {
    const packed = framed(gzipSync(question(Buffer.alloc(2 * MB - 100, 'a'))), true);
    const sent = Buffer.concat(Array.from({ length: Math.floor((15 * KB) / packed.length) }, () => packed));
    expect(await mostWhile(path, sent)).toBeLessThanOrEqual(MOST_MB);
  });
});
