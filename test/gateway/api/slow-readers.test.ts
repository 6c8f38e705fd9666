import { credentials, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { FlushScheduler } from '../../../src/gateway/api/flush-scheduler.js';
import type { ResponseStream } from '../../../src/gateway/api/response-stream.js';
import { StreamWriter } from '../../../src/gateway/api/stream-writer.js';
import type { RocmForgeError } from '../../../src/shared/errors.js';
import {
  type GenerateStreamResponse,
  InferenceServiceClient,
} from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../../src/shared/grpc/status.js';
import { fakeTokens } from '../../doubles/fake-device.js';
import { FAKE_VOCABULARY, type FakeGateway, startFakeGateway } from '../../support/fake-gateway.js';
import { request } from '../../support/gateway.js';

/** A stream whose socket is as far behind as a test says. */
class Stream implements ResponseStream {
  writableNeedDrain = false;
  ended = false;
  readonly written: GenerateStreamResponse[] = [];
  readonly failures: RocmForgeError[] = [];
  private readonly waiting: (() => void)[] = [];
  write(message: GenerateStreamResponse): void {
    this.written.push(message);
  }
  end(): void {
    this.ended = true;
  }
  fail(error: RocmForgeError): void {
    this.failures.push(error);
  }
  onceDrained(tell: () => void): void {
    this.waiting.push(tell);
  }
  drain(): void {
    for (const tell of this.waiting.splice(0)) tell();
  }
  /** Token ids of each chunk written. */
  get chunks(): number[][] {
    return this.written.flatMap(({ event }) => (event?.$case === 'chunk' ? [event.value.tokenIds] : []));
  }
}

const loopTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('the writer of a stream', () => {
  const slow: boolean[] = [];
  let broken = 0;
  const writerOf = (stream: Stream, streamInterval = 1) => {
    slow.length = 0;
    broken = 0;
    return new StreamWriter(stream, {
      requestId: 'r',
      maxHeldTokens: 3,
      streamInterval,
      rounds: new FlushScheduler(() => 0),
      onSlow: (isSlow) => slow.push(isSlow),
      onBroken: () => {
        broken += 1;
      },
    });
  };

  it('writes a token when the loop has handled what came with it, and waits for nothing else', async () => {
    const stream = new Stream();
    const writer = writerOf(stream);
    for (const token of [1, 2, 3]) {
      writer.chunk(0, [token], 'x', []);
      await loopTurn();
    }
    expect(stream.chunks).toEqual([[1], [2], [3]]);
  });

  it('joins what came in one turn of the loop, each completion by itself', async () => {
    const stream = new Stream();
    const writer = writerOf(stream);
    writer.chunk(0, [1], 'a', []);
    writer.chunk(1, [7], 'x', []);
    writer.chunk(0, [2], 'b', []);
    await loopTurn();
    expect(stream.chunks).toEqual([[1, 2], [7]]);
    const first = stream.written[0]?.event;
    expect(first?.$case === 'chunk' && first.value.text).toBe('ab');
  });

  it('joins as many tokens as the stream interval says, but the first comes at once, and the last with the end', async () => {
    const stream = new Stream();
    const writer = writerOf(stream, 3);
    for (const token of [1, 2, 3, 4, 5, 6]) {
      writer.chunk(0, [token], 'x', []);
      await loopTurn();
    }
    writer.end();
    await loopTurn();
    expect(stream.chunks).toEqual([[1], [2, 3, 4], [5, 6]]);
    expect(stream.ended).toBe(true);
  });

  it('joins everything while the socket is behind, tells that the reader is slow, and that it caught up', async () => {
    const stream = new Stream();
    const writer = writerOf(stream);
    stream.writableNeedDrain = true;
    for (const token of [1, 2, 3, 4, 5]) {
      writer.chunk(0, [token], 'x', []);
      await loopTurn();
    }
    expect(stream.chunks).toEqual([]);
    expect(slow).toEqual([true]);
    writer.end();
    await loopTurn();
    expect(stream.ended).toBe(false);
    stream.writableNeedDrain = false;
    stream.drain();
    expect(stream.chunks).toEqual([[1, 2, 3, 4, 5]]);
    expect(slow).toEqual([true, false]);
    expect(stream.ended).toBe(true);
  });

  it.each([false, true])('writes what it holds before an error, also when the socket is behind (%s)', (isBehind) => {
    const stream = new Stream();
    stream.writableNeedDrain = isBehind;
    const writer = writerOf(stream);
    writer.chunk(0, [1, 2], 'second', []);
    writer.fail(new Error('no more'));
    writer.chunk(0, [3], 'late', []);
    expect(stream.chunks).toEqual([[1, 2]]);
    expect(stream.failures.map(({ reason }) => reason)).toEqual(['INTERNAL']);
    writer.fail(new Error('again'));
    expect(stream.failures).toHaveLength(1);
  });

  it('ends its own stream when something cannot be written, and no other', async () => {
    const [bad, good] = [new Stream(), new Stream()];
    bad.write = () => {
      throw new Error('not to be encoded');
    };
    writerOf(bad).chunk(0, [1], 'x', []);
    writerOf(good).chunk(0, [2], 'y', []);
    await loopTurn();
    expect([bad.failures.map(({ reason }) => reason), broken]).toEqual([['INTERNAL'], 1]);
    expect(good.chunks).toEqual([[2]]);
  });
});

describe('the writer of a stream with log probabilities', () => {
  it('counts log probabilities as what it holds', async () => {
    const stream = new Stream();
    const slow: boolean[] = [];
    const options = {
      requestId: 'r',
      maxHeldTokens: 20,
      rounds: new FlushScheduler(() => 0),
      onSlow: (isSlow: boolean) => slow.push(isSlow),
      onBroken: () => undefined,
    };
    const writer = new StreamWriter(stream, options);
    stream.writableNeedDrain = true;
    const top = Array.from({ length: 20 }, (_, tokenId) => ({ tokenId, logprob: 0 }));
    writer.chunk(0, [1], 'a', [{ tokenId: 1, logprob: 0, top, given: [] }]);
    await loopTurn();
    expect(slow).toEqual([true]);
  });
});

describe('a reader that does not read', () => {
  let server: FakeGateway | undefined;
  let reader: InferenceServiceClient | undefined;
  afterEach(async () => {
    reader?.close();
    reader = undefined;
    await server?.stop();
    server = undefined;
  });
  /** A client that takes few bytes while it does not read. */
  const readerOf = ({ address }: FakeGateway): InferenceServiceClient => {
    reader = new InferenceServiceClient(address, credentials.createInsecure(), {
      'grpc-node.flow_control_window': 512,
      'grpc.use_local_subchannel_pool': 1,
    });
    return reader;
  };
  const prompt = Array.from({ length: 20 }, (_, i) => 259 + i);
  const tokens = 12_000;
  // Far more than that client takes, in steps slow enough that hardly any are joined, and less than what pauses a generation.
  const UNREAD = 900;
  const unread = request({ tokens: prompt, stop: { maxTokens: UNREAD, ignoreEos: true } });
  const long = request({ tokens: prompt, stop: { maxTokens: tokens, ignoreEos: true } });
  const room = { model: { contextLength: 16_384 }, maxContext: 16_384, kvBlocks: 3000 };

  it('is paused, holds up nobody else, and gets every token when it reads again', async () => {
    server = await startFakeGateway({ ...room, stepMs: 0, maxSequences: 2 });
    const { client, gateway } = server;
    const call = client.generateStream(long);
    const ids: number[] = [];
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'chunk') ids.push(...event.value.tokenIds);
    });
    const ended = new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
    await new Promise((resolve) => call.once('data', resolve));
    call.pause();
    const steps = () => server?.executor.device?.steps ?? 0;
    // Its steps come to an end although it is far from its last token.
    await expect
      .poll(async () => {
        const before = steps();
        await new Promise((resolve) => setTimeout(resolve, 100));
        return steps() - before;
      })
      .toBe(0);
    expect(steps()).toBeLessThan(tokens);
    expect(gateway.replica.active).toBe(1);
    const other = client.generateStream(request({ tokens: prompt, stop: { maxTokens: 50, ignoreEos: true } }));
    await new Promise((resolve, reject) =>
      other
        .on('data', () => undefined)
        .on('end', resolve)
        .on('error', reject),
    );
    call.resume();
    await ended;
    expect(ids).toEqual(fakeTokens(prompt, tokens, FAKE_VOCABULARY));
    expect(server.executor.failure).toBeUndefined();
  });

  it('is waited for by a gateway that drains, though nothing is computed for it any more', async () => {
    server = await startFakeGateway({ ...room, stepMs: 2 });
    const { gateway } = server;
    const call = readerOf(server).generateStream(unread);
    const ids: number[] = [];
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case === 'chunk') ids.push(...event.value.tokenIds);
    });
    const ended = new Promise((resolve, reject) => call.on('end', resolve).on('error', reject));
    call.pause();
    await expect.poll(() => gateway.replica.active).toBe(1);
    await expect.poll(() => gateway.replica.active).toBe(0);
    let isOver = false;
    const drained = gateway.drain(20_000).then((finished) => {
      isOver = true;
      return finished;
    });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(isOver).toBe(false);
    call.resume();
    await ended;
    expect(ids).toEqual(fakeTokens(prompt, UNREAD, FAKE_VOCABULARY));
    expect(await drained).toBe(true);
  });

  it('is cut by a gateway whose time to drain is over, which tells so', async () => {
    server = await startFakeGateway({ ...room, stepMs: 2 });
    const call = readerOf(server).generateStream(unread);
    call.on('data', () => undefined).on('error', () => undefined);
    call.pause();
    const { gateway } = server;
    await expect.poll(() => gateway.replica.active).toBe(1);
    await expect.poll(() => gateway.replica.active).toBe(0);
    expect(await gateway.drain(300)).toBe(false);
  });

  it('is given up after a while, with a reason', async () => {
    server = await startFakeGateway({ ...room, stepMs: 0, pauseLimitMs: 300 });
    const call = server.client.generateStream(long);
    const error = new Promise<ServiceError>((resolve) => call.on('error', resolve));
    call.on('data', () => undefined);
    await new Promise((resolve) => call.once('data', resolve));
    call.pause();
    await expect.poll(() => server?.gateway.replica.active).toBe(0);
    expect(server.executor.device?.steps).toBeLessThan(tokens);
    call.resume();
    const { code, metadata } = await error;
    expect(code).toBe(status.RESOURCE_EXHAUSTED);
    expect(errorInfo({ metadata })?.reason).toBe('SLOW_READER');
    server.gateway.replica.scheduler?.check();
  });
});
