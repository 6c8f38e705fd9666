import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HealthService } from '../../src/shared/generated/grpc/health/v1/health.js';
import { InferenceServiceService } from '../../src/shared/generated/rocmforge/v1/inference.js';
import { ReflectionClient } from '../support/reflection-client.js';
import { SeparateGateway } from '../support/separate-gateway.js';

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
  let gateway: SeparateGateway;
  let client: ReflectionClient;

  beforeAll(async () => {
    gateway = await SeparateGateway.start(100, {
      maxQueuedRequests: 64,
      requestTimeoutMs: 5000,
      unreadTimeoutMs: 5000,
    });
    client = new ReflectionClient(gateway.address);
    await client.ask({ listServices: '' });
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
  });

  /** Calls that are open, and how many the gateway has ended, after a collection. */
  async function counts(): Promise<{ open: number; ended: number }> {
    const { calls, refused, slowSenders, slowReaders } = await gateway.counts();
    return { open: calls, ended: refused + slowSenders + slowReaders };
  }

  /** Opens calls that send this and read nothing, until the gateway has ended all of them. @returns MB more, at most */
  async function mostWhile(path: string, sent: Buffer): Promise<number> {
    const { ended } = await counts();
    const session = deafClient();
    const quiet = gateway.residentMb();
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, gateway.residentMb());
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
    const connection = { createConnection: () => gateway.connect(), settings: { initialWindowSize: 0 } };
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
