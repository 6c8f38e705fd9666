import { EventEmitter } from 'node:events';
import type { OutgoingHttpHeaders } from 'node:http';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { openAiError } from '../../../../src/gateway/api/http/errors.js';
import type { Exchange } from '../../../../src/gateway/api/http/exchange.js';
import type { KeptStream } from '../../../../src/gateway/api/http/kept-stream.js';
import { KeptStreams } from '../../../../src/gateway/api/http/kept-streams.js';
import { RocmForgeError } from '../../../../src/shared/errors.js';

const HEADERS = { 'content-type': 'text/event-stream' };
const LIMITS = {
  ...{ bytesOfStream: 10_000, bytesOfPrincipal: 20_000, bytes: 40_000 },
  ...{ streamsOfPrincipal: 4, streams: 8, unreadMs: 60_000 },
};

/** A response whose reader takes what a test lets it. */
class NotingResponse extends EventEmitter {
  text = '';
  status: number | undefined;
  destroyed = false;
  writableEnded = false;
  writableNeedDrain = false;

  writeHead(status: number, _headers: OutgoingHttpHeaders): void {
    this.status = status;
  }
  write(bytes: Uint8Array): void {
    this.text += Buffer.from(bytes).toString();
  }
  end(): void {
    this.writableEnded = true;
    this.emit('close');
  }
  leave(): void {
    this.destroyed = true;
    this.emit('close');
  }
  drain(): void {
    this.writableNeedDrain = false;
    this.emit('drain');
  }
}

interface Reader {
  readonly exchange: Exchange;
  readonly response: NotingResponse;
  readonly errors: RocmForgeError[];
}

function reader(name?: string, principal = 'a'): Reader {
  const response = new NotingResponse();
  const errors: RocmForgeError[] = [];
  const exchange = {
    response,
    request: { headers: name === undefined ? {} : { 'x-conversation-id': name } },
    client: { principal },
    signal: new AbortController().signal,
    errorForm: openAiError,
    fail: (error: RocmForgeError) => {
      errors.push(error);
      response.end();
    },
  } as unknown as Exchange;
  return { exchange, response, errors };
}

let streams: KeptStreams;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  streams = new KeptStreams(LIMITS);
});
afterEach(() => void vi.useRealTimers());

/** A stream with some bytes, and who reads it. */
function begun(name: string, bytes = 0, principal = 'a'): { readonly stream: KeptStream; readonly first: Reader } {
  const first = reader(name, principal);
  const stream = streams.begin(first.exchange);
  if (stream === undefined) throw new Error('it is not kept');
  stream.writeHead(200, HEADERS);
  if (bytes > 0) stream.write('x'.repeat(bytes));
  return { stream, first };
}
const isThere = (name: string, principal = 'a'): boolean => {
  try {
    return streams.find(principal, name) !== undefined;
  } catch (error) {
    expect((error as RocmForgeError).reason).toBe('STREAM_NOT_FOUND');
    return false;
  }
};

it('is not kept where the client names none', () => {
  expect(streams.begin(reader().exchange)).toBeUndefined();
  expect(streams.begin(reader('').exchange)).toBeUndefined();
  expect(() => streams.begin(reader('x'.repeat(513)).exchange)).toThrow('x-conversation-id: it has 513 characters');
});

it('continues without its client, and is read from any place, by several, while it is written and behind its end', () => {
  const { stream, first } = begun('one');
  stream.write('one ');
  first.response.leave();
  stream.write('two ');
  expect(stream.signal.aborted).toBe(false);
  const readers = [0, 2, 4, 6, 8, 100].map((from) => {
    const { exchange, response } = reader();
    streams.find('a', 'one').readBy(exchange, from);
    return response;
  });
  stream.write('three');
  stream.end();
  const whole = 'one two three';
  expect(readers.map(({ text }) => text)).toEqual([
    whole,
    whole.slice(2),
    whole.slice(4),
    whole.slice(6),
    'three',
    'three',
  ]);
  for (const { status, writableEnded } of readers) expect([status, writableEnded]).toEqual([200, true]);
  const late = reader();
  streams.find('a', 'one').readBy(late.exchange, 4);
  expect([late.response.text, late.response.writableEnded]).toEqual(['two three', true]);
});

it('waits for a slow reader with nothing in its response, and for no other', () => {
  const { stream, first } = begun('one');
  first.response.writableNeedDrain = true;
  const fast = reader();
  stream.readBy(fast.exchange);
  stream.write('a');
  stream.write('b');
  stream.end();
  expect([first.response.text, fast.response.text, stream.writableNeedDrain]).toEqual(['', 'ab', false]);
  first.response.drain();
  expect([first.response.text, first.response.writableEnded]).toEqual(['ab', true]);
});

it('is seen by its principal alone', () => {
  begun('one');
  expect([isThere('one'), isThere('one', 'b'), isThere('two')]).toEqual([true, false, false]);
  const { stream } = begun('one', 0, 'b');
  expect(streams.find('b', 'one')).toBe(stream);
  expect(streams.find('a', 'one')).not.toBe(stream);
});

it('gives its name to the next, and is there for those who read it', () => {
  const { stream, first } = begun('one', 10);
  const next = begun('one', 20);
  expect(streams.find('a', 'one')).toBe(next.stream);
  stream.write('y');
  expect(first.response.text).toBe(`${'x'.repeat(10)}y`);
  first.response.leave();
  expect([stream.signal.aborted, next.stream.signal.aborted]).toEqual([true, false]);
  expect(streams.find('a', 'one')).toBe(next.stream);
});

it.each([
  ['while it is written', false],
  ['when it has ended', true],
])('is dropped after so long without readers, %s', (_, ends) => {
  const { stream, first } = begun('one', 10);
  vi.advanceTimersByTime(10 * LIMITS.unreadMs);
  if (ends) stream.end();
  else first.response.leave();
  vi.advanceTimersByTime(LIMITS.unreadMs - 1);
  expect([isThere('one'), stream.signal.aborted]).toEqual([true, false]);
  const back = reader();
  stream.readBy(back.exchange);
  vi.advanceTimersByTime(ends ? 0 : 10 * LIMITS.unreadMs);
  back.response.leave();
  vi.advanceTimersByTime(LIMITS.unreadMs - 1);
  expect(isThere('one')).toBe(true);
  vi.advanceTimersByTime(1);
  expect([isThere('one'), stream.signal.aborted, streams.counts.bytes]).toEqual([false, true, 0]);
});

it('ends for all when it is stopped, and what computes it', () => {
  const { stream, first } = begun('one', 4);
  const written: string[] = [];
  stream.writtenBy({
    isLoaded: () => true,
    stop: ({ reason }) => {
      written.push(reason);
      stream.write('stopped');
      stream.end();
    },
  });
  stream.stop(new RocmForgeError('STREAM_CANCELLED', 'stopped'));
  expect(written).toEqual(['STREAM_CANCELLED']);
  expect([first.response.text, first.response.writableEnded]).toEqual(['xxxxstopped', true]);
  expect([isThere('one'), stream.signal.aborted, streams.counts.bytes]).toEqual([false, true, 0]);
});

it('tells all who wait why it cannot begin', () => {
  const first = reader('one');
  const stream = streams.begin(first.exchange) as KeptStream;
  stream.fail(new RocmForgeError('QUEUE_FULL', 'full'));
  expect([first.errors.map(({ reason }) => reason), isThere('one'), streams.counts.bytes]).toEqual([
    ['QUEUE_FULL'],
    false,
    0,
  ]);
});

it('waits for its model as long as nothing but comments has come', () => {
  const { stream } = begun('one');
  let isLoaded = false;
  stream.writtenBy({ stop: () => undefined, isLoaded: () => isLoaded });
  stream.write(': waiting\n\n');
  expect(stream.isLoading()).toBe(true);
  isLoaded = true;
  expect(stream.isLoading()).toBe(false);
  stream.write('data: 1\n\n');
  // Its executor was lost.
  isLoaded = false;
  expect(stream.isLoading()).toBe(false);
});

it('is not kept beyond its memory, but continues for its readers, who hold it up like any stream', () => {
  const { stream, first } = begun('one', 6000);
  first.response.writableNeedDrain = true;
  stream.write('y'.repeat(6000));
  expect([isThere('one'), streams.counts.bytes, stream.signal.aborted]).toEqual([false, 0, false]);
  for (let i = 0; i < 30; i++) stream.write('z'.repeat(10_000));
  expect(stream.writableNeedDrain).toBe(true);
  let drained = 0;
  stream.once('drain', () => {
    drained += 1;
  });
  first.response.drain();
  expect([stream.writableNeedDrain, drained, stream.bytes]).toEqual([false, 1, 0]);
  stream.end();
  expect(first.response.text).toBe('x'.repeat(6000) + 'y'.repeat(6000) + 'z'.repeat(300_000));
  expect(first.response.writableEnded).toBe(true);
});

it('ends beyond its memory without readers', () => {
  const { stream, first } = begun('one', 6000);
  first.response.leave();
  stream.write('y'.repeat(6000));
  expect([isThere('one'), stream.signal.aborted]).toEqual([false, true]);
});

it('makes room by its principal’s oldest that have ended, then anybody’s, and else is not kept itself', () => {
  for (const name of ['one', 'two']) begun(name, 8000).stream.end();
  begun('three', 8000);
  expect([isThere('one'), isThere('two'), isThere('three')]).toEqual([false, true, true]);
  begun('four', 8000, 'b').stream.end();
  begun('five', 8000, 'b');
  begun('six', 8000, 'c');
  // 40,000 bytes hold two and three of a, four and five of b, six of c.
  expect(streams.counts).toEqual({ streams: 4, bytes: 4 * 8128, dropped: 2 });
  expect([isThere('two'), isThere('three'), isThere('four', 'b'), isThere('five', 'b'), isThere('six', 'c')]).toEqual([
    false,
    true,
    true,
    true,
    true,
  ]);
  begun('seven', 8000, 'c');
  expect([isThere('four', 'b'), isThere('seven', 'c')]).toEqual([false, true]);
  const { stream } = begun('eight', 9000, 'd');
  expect([isThere('eight', 'd'), stream.signal.aborted]).toEqual([false, false]);
  expect(streams.counts.dropped).toBe(4);
  expect(streams.counts.bytes).toBeLessThanOrEqual(LIMITS.bytes);
});

it('is not kept where its principal, or all, have as many that are being written', () => {
  for (let i = 0; i < LIMITS.streamsOfPrincipal; i++) begun(`s${i}`);
  expect(streams.begin(reader('more').exchange)).toBeUndefined();
  streams.find('a', 's2').end();
  begun('more');
  expect([isThere('s2'), isThere('more')]).toEqual([false, true]);
  for (let i = 0; i < LIMITS.streams - LIMITS.streamsOfPrincipal; i++) begun(`s${i}`, 0, 'b');
  expect(streams.begin(reader('more', 'c').exchange)).toBeUndefined();
});

it('ends with the gateway when it has no readers', () => {
  const [unread, read] = [begun('one', 10), begun('two', 10)];
  unread.first.response.leave();
  streams.endUnread();
  expect([unread.stream.signal.aborted, read.stream.signal.aborted]).toEqual([true, false]);
  read.first.response.leave();
  expect(read.stream.signal.aborted).toBe(true);
});

it('frees all memory, whatever happens in whatever order', () => {
  let state = 12345;
  const random = (below: number): number => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * below);
  };
  const open: { readonly stream: KeptStream; readonly first: Reader }[] = [];
  for (let i = 0; i < 3000; i++) {
    const [name, principal] = [`s${random(6)}`, 'abc'[random(3)] as string];
    const one = open[random(open.length)];
    const what = random(8);
    if (what < 2) {
      const first = reader(name, principal);
      const stream = streams.begin(first.exchange);
      if (stream !== undefined) open.push({ stream, first });
      stream?.writeHead(200, HEADERS);
    } else if (what < 5) one?.stream.write('x'.repeat(random(3000)));
    else if (what === 5) one?.first.response.leave();
    else if (what === 6) one?.stream.end();
    else vi.advanceTimersByTime(random(LIMITS.unreadMs));
    expect(streams.counts.bytes).toBeLessThanOrEqual(LIMITS.bytes);
    expect(streams.counts.bytes).toBeGreaterThanOrEqual(0);
  }
  for (const { stream, first } of open) {
    first.response.leave();
    stream.end();
  }
  vi.advanceTimersByTime(LIMITS.unreadMs);
  expect(streams.counts.bytes).toBe(0);
});
