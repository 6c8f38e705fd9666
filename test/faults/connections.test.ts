import { type ClientHttp2Session, type ClientHttp2Stream, connect as connectHttp2 } from 'node:http2';
import type { Socket } from 'node:net';
import { credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  DetokenizeRequest,
  GenerateStreamRequest,
  GetModelRequest,
  InferenceServiceClient,
  InferenceServiceService,
  TokenizeRequest,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { generate, request } from '../support/gateway.js';
import { SeparateGateway } from '../support/separate-gateway.js';

const MB = 1 << 20;
const CONTEXT = 4096;
/** The gateway's memory above that in quiet: while it is abused, and ten seconds after. */
const MOST_MB = 150;
const MOST_AFTER_MB = 60;
const AFTER_MS = 10_000;
const ANSWERS = 60;
const LIMITS = {
  handshakeTimeoutMs: 1000,
  requestTimeoutMs: 2000,
  unreadTimeoutMs: 2000,
  maxConnections: 400,
  maxStreamsPerConnection: 1024,
};

const delay = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('what connections hold of the gateway’s memory', () => {
  let gateway: SeparateGateway;
  let client: InferenceServiceClient;
  let quietMb = 0;

  beforeAll(async () => {
    gateway = await SeparateGateway.start(2000, { maxQueuedRequests: 4096, ...LIMITS });
    client = new InferenceServiceClient(gateway.address, credentials.createInsecure());
    // Descriptors for texts that are decoded in threads are its own.
    await generate(client, request({ text: 'the fox', stop: { maxTokens: 20 } }));
    await Promise.all(Array.from({ length: 8 }, () => tokenize('a'.repeat(400_000))));
    await gateway.counts();
    quietMb = gateway.residentMb();
  });
  afterAll(async () => {
    client?.close();
    await gateway?.stop();
  });

  function tokenize(text: string): Promise<unknown> {
    const input = { $case: 'text', value: { text, parseSpecial: false, addSpecial: undefined } } as const;
    return new Promise((resolve, reject) =>
      client.tokenize({ ...TokenizeRequest.create(), input }, (error, answer) =>
        error ? reject(error) : resolve(answer),
      ),
    );
  }

  /** A client that gives the gateway no window to send into. */
  function deafClient(): ClientHttp2Session {
    const session = connectHttp2('http://localhost', {
      createConnection: () => gateway.connect(),
      settings: { initialWindowSize: 0 },
      // Its own limit would make this client end its streams.
      maxSessionMemory: 1000,
    });
    session.on('error', () => undefined);
    return session;
  }

  function call(session: ClientHttp2Session, method: keyof typeof InferenceServiceService): ClientHttp2Stream {
    const stream = session.request({
      ':method': 'POST',
      ':path': InferenceServiceService[method].path,
      'content-type': 'application/grpc',
      te: 'trailers',
    });
    stream.on('error', () => undefined);
    return stream;
  }

  function framed(message: Uint8Array, length = message.length): Buffer {
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(length, 1);
    return Buffer.concat([prefix, message]);
  }

  /**
   * Abuses the gateway, and tells how its memory went: the most meanwhile, and what stays some seconds after it is over. Heaps
   * that have grown once stay large; where more stays than may, the abuse comes again, and what it adds then is what leaks.
   */
  async function watchMemory(what: string, abuse: () => Promise<() => void>): Promise<{ most: number; after: number }> {
    const first = await watchOnce(what, abuse);
    if (first.after <= MOST_AFTER_MB) return first;
    const second = await watchOnce(`${what}, again`, abuse);
    return { most: Math.max(first.most, second.most), after: second.after - first.after };
  }

  /** MB above those in quiet. */
  async function watchOnce(what: string, abuse: () => Promise<() => void>): Promise<{ most: number; after: number }> {
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, gateway.residentMb());
    }, 20);
    const end = await abuse().finally(() => clearInterval(watch));
    end();
    const over = performance.now();
    let after = Number.POSITIVE_INFINITY;
    while (after > quietMb + MOST_AFTER_MB && performance.now() - over < AFTER_MS) {
      await delay(200);
      await gateway.counts();
      after = gateway.residentMb();
    }
    const above = (mb: number) => (mb - quietMb).toFixed(0);
    console.log(
      `${what}: ${quietMb.toFixed(0)} MB in quiet, ${above(most)} MB more at most, ${above(after)} MB ${((performance.now() - over) / 1000).toFixed(1)} s after`,
    );
    return { most: most - quietMb, after: after - quietMb };
  }

  /** Until so many answers were given up, and nothing is open. */
  async function givenUp(slowReaders: number): Promise<void> {
    await expect
      .poll(
        async () => {
          const now = await gateway.counts();
          return now.slowReaders >= slowReaders && now.calls === 0;
        },
        { interval: 250 },
      )
      .toBe(true);
  }

  const isServed = async () =>
    (await generate(client, request({ text: 'the fox', stop: { maxTokens: 3, ignoreEos: true } }))).tokenIds.length;

  it('is bounded for 40 requests of 15 MiB that never end: they are refused by their first bytes', async () => {
    const { most, after } = await watchMemory('40 unfinished requests of 15 MiB', async () => {
      const session = deafClient();
      const { refused } = await gateway.counts();
      const streams = Array.from({ length: 40 }, () => call(session, 'generateStream'));
      for (const stream of streams) stream.write(framed(Buffer.alloc(3 * MB), 15 * MB));
      await expect.poll(async () => (await gateway.counts()).refused - refused).toBe(40);
      return () => session.destroy();
    });
    expect(most).toBeLessThanOrEqual(MOST_MB);
    expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
  });

  it('is bounded for 40 requests of 2 MiB that never end, which are given up after a while', async () => {
    const { most, after } = await watchMemory('40 unfinished requests of 2 MiB', async () => {
      const session = deafClient();
      const { slowSenders } = await gateway.counts();
      const streams = Array.from({ length: 40 }, () => call(session, 'generateStream'));
      for (const stream of streams) stream.write(framed(Buffer.alloc(2 * MB - 100), 2 * MB));
      await expect.poll(async () => (await gateway.counts()).slowSenders - slowSenders).toBe(40);
      expect(await isServed()).toBe(3);
      return () => session.destroy();
    });
    expect(most).toBeLessThanOrEqual(MOST_MB);
    expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
  });

  it('is bounded for small messages that unpack to large ones', async () => {
    const { gzipSync } = await import('node:zlib');
    const bomb = framed(gzipSync(Buffer.alloc(2 * MB - 100)));
    bomb.writeUInt8(1, 0);
    const { most, after } = await watchMemory('300 messages that unpack to 2 MiB', async () => {
      const session = connectHttp2('http://localhost', { createConnection: () => gateway.connect() });
      session.on('error', () => undefined);
      const streams = Array.from({ length: 300 }, () => {
        const stream = session.request({
          ':method': 'POST',
          ':path': InferenceServiceService.tokenize.path,
          'content-type': 'application/grpc',
          'grpc-encoding': 'gzip',
          te: 'trailers',
        });
        stream.on('error', () => undefined);
        return stream;
      });
      await Promise.all(
        streams.map(
          (stream) =>
            new Promise((resolve) => {
              stream.on('close', resolve);
              stream.resume();
              stream.end(bomb);
            }),
        ),
      );
      return () => session.destroy();
    });
    expect(most).toBeLessThanOrEqual(MOST_MB);
    expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
  });

  it.each([
    [
      'Detokenize',
      'detokenize',
      () => DetokenizeRequest.encode({ model: '', tokenIds: Array(CONTEXT).fill(270), includeSpecialTokens: false }),
    ],
    [
      'Tokenize',
      'tokenize',
      () =>
        TokenizeRequest.encode({
          model: '',
          input: { $case: 'text', value: { text: 'a'.repeat(400_000), parseSpecial: false, addSpecial: undefined } },
        }),
    ],
  ] as const)(
    'is bounded for many answers of %s that nobody reads, which are given up after a while',
    async (_what, method, encode) => {
      const { most, after } = await watchMemory(`${ANSWERS} unread answers of ${method}`, async () => {
        const session = deafClient();
        const { slowReaders } = await gateway.counts();
        const message = framed(encode().finish());
        // One behind the other: on a busy machine all together need longer than a request may.
        for (let i = 0; i < ANSWERS; i++) {
          await new Promise<void>((resolve) => call(session, method).end(message, resolve));
        }
        await givenUp(slowReaders + ANSWERS);
        return () => session.destroy();
      });
      expect(most).toBeLessThanOrEqual(MOST_MB);
      expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
    },
  );

  it('is bounded for 1,000 generations that ended and that nobody reads', async () => {
    const { most, after } = await watchMemory('1,000 unread generations', async () => {
      const session = deafClient();
      const { slowReaders } = await gateway.counts();
      const message = framed(
        GenerateStreamRequest.encode(request({ tokens: [1, 270], stop: { maxTokens: 4, ignoreEos: true } })).finish(),
      );
      for (let i = 0; i < 1000; i++) call(session, 'generateStream').end(message);
      await givenUp(slowReaders + 1000);
      return () => session.destroy();
    });
    expect(most).toBeLessThanOrEqual(MOST_MB);
    expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
  });

  it('is bounded for 800 connections that say half of a preface: they are closed, and others get in', async () => {
    const { closed } = await gateway.counts();
    const { most, after } = await watchMemory('800 half-open connections', async () => {
      const sockets: Socket[] = [];
      for (let i = 0; i < 800; i++) {
        const socket = gateway.connect();
        socket.on('error', () => undefined);
        socket.write('PRI * HTTP/2');
        sockets.push(socket);
      }
      await delay(300);
      expect((await gateway.counts()).connections).toBeLessThanOrEqual(LIMITS.maxConnections);
      const newcomer = new InferenceServiceClient(gateway.address, credentials.createInsecure());
      await generate(newcomer, request({ text: 'the fox', stop: { maxTokens: 2 } }));
      newcomer.close();
      await expect.poll(async () => (await gateway.counts()).connections).toBeLessThanOrEqual(2);
      return () => {
        for (const socket of sockets) socket.destroy();
      };
    });
    expect((await gateway.counts()).closed - closed).toBeGreaterThanOrEqual(400);
    expect(most).toBeLessThanOrEqual(MOST_MB);
    expect(after).toBeLessThanOrEqual(MOST_AFTER_MB);
  });

  it('answers 70 KB of metadata, and a path of 7 KB, in few words', async () => {
    const metadata = new Metadata();
    for (let i = 0; i < 70; i++) metadata.set(`x-${i}`, 'm'.repeat(1000));
    const error = await new Promise<ServiceError | null>((resolve) =>
      client.getModel(GetModelRequest.create(), metadata, { deadline: Date.now() + 5000 }, resolve),
    );
    expect(status[error?.code ?? 0]).toBe('RESOURCE_EXHAUSTED');
    const unknown = await new Promise<ServiceError | null>((resolve) =>
      client.makeUnaryRequest(
        `/${'p'.repeat(7000)}`,
        (value: Buffer) => value,
        (value: Buffer) => value,
        Buffer.alloc(0),
        resolve,
      ),
    );
    expect(status[unknown?.code ?? 0]).toBe('UNIMPLEMENTED');
    expect(unknown?.details.length).toBeLessThan(300);
  });

  it('leaves the service working', async () => {
    expect(await isServed()).toBe(3);
  });
});
