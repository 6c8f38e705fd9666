import { EventEmitter } from 'node:events';
import type { Http2Server } from 'node:http2';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { HeaderWatch } from '../../../../src/gateway/api/grpc/header-watch.js';

const LOOK_MS = 500;
const NAME = '203.0.113.7:4711';

/** The part of a connection and its HTTP/2 that {@link HeaderWatch} sees. */
class FakeSession extends EventEmitter {
  destroyed = false;
  readonly socket = {
    remoteAddress: '203.0.113.7',
    remotePort: 4711,
    bytesRead: 0,
    bytesWritten: 0,
    _handle: { writeQueueSize: 0 },
  };
  readonly state = { lastProcStreamID: 0 };
  pings = 0;
  /** True if nghttp2 still writes, and the reader reads. */
  writes = true;

  /** False where too many pings are unanswered. */
  pingsAreTaken = true;

  ping(): boolean {
    this.pings += 1;
    if (this.pingsAreTaken && this.writes) this.socket.bytesWritten += 17;
    return this.pingsAreTaken;
  }
  destroy(): void {
    this.destroyed = true;
    this.emit('close');
  }
  /** Bytes of which nghttp2 has read the beginning of a stream. */
  begin(stream: number): void {
    this.socket.bytesRead += 100;
    this.state.lastProcStreamID = stream;
  }
}

let session: FakeSession;
let watch: HeaderWatch;
let abuse: string[];
beforeEach(() => {
  vi.useFakeTimers();
  abuse = [];
  session = new FakeSession();
  watch = new HeaderWatch((name) => abuse.push(name));
  const server = new EventEmitter();
  watch.watch(server as unknown as Http2Server);
  server.emit('session', session);
});
afterEach(() => vi.useRealTimers());
const looks = (count: number) => vi.advanceTimersByTime(count * LOOK_MS);

it('ends a connection on which headers never come and nghttp2 writes no more', () => {
  session.writes = false;
  session.begin(3);
  looks(2);
  expect([session.destroyed, abuse, watch.counters.refused]).toEqual([true, [NAME], 1]);
});

it('asks nothing while all headers come, nor of a connection that is quiet', () => {
  for (const stream of [1, 3, 5]) {
    session.begin(stream);
    session.emit('stream', { id: stream });
    looks(2);
  }
  looks(20);
  expect([session.pings, session.destroyed]).toEqual([0, false]);
});

it('asks once of headers that Node has reset by itself, and lets the connection be', () => {
  session.begin(3);
  looks(4);
  session.begin(3);
  looks(4);
  expect([session.pings, session.destroyed, watch.counters.refused]).toEqual([1, false, 0]);
});

it('draws nothing from a ping that was not taken: too many are unanswered', () => {
  session.pingsAreTaken = false;
  session.begin(3);
  looks(10);
  expect([session.pings, session.destroyed]).toEqual([1, false]);
});

it('waits while the reader reads nothing: a ping is not written then, either', () => {
  session.writes = false;
  session.socket._handle.writeQueueSize = 70_000;
  session.begin(3);
  looks(10);
  expect(session.destroyed).toBe(false);
  session.socket._handle.writeQueueSize = 0;
  session.socket.bytesWritten += 70_017;
  looks(2);
  expect([session.destroyed, watch.counters.refused]).toEqual([false, 0]);
});

it('looks at nothing when the last connection is gone', () => {
  session.destroy();
  expect(vi.getTimerCount()).toBe(0);
});
