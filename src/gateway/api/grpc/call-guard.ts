import { constants, type Http2Server, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { BoundedLog } from '../../../shared/bounded-log.js';
import { RocmForgeError } from '../../../shared/errors.js';
import { tooLarge } from '../../../shared/grpc/strict.js';
import type { Logger } from '../../../shared/log.js';
import type { ProxiedClients } from '../../trust/proxied-clients.js';
import type { Rejections } from '../../trust/rejections.js';
import { MIN_FRAME_CHARGE } from '../frame-charge.js';
import { peerOf } from '../peer.js';
import { nameOf } from './connection-guard.js';
import { MessageFrames } from './message-frames.js';
import { refuse, retryLater } from './refused-call.js';

export interface CallLimits {
  /** The most calls that are open at once, and half of them of one peer. */
  readonly maxOpenCalls: number;
  /** Time that a request may take to arrive. */
  readonly requestTimeoutMs: number;
  /** The most bytes of requests that have not arrived as a whole. */
  readonly maxUnfinishedBytes: number;
  /** Time that written bytes may make no progress to their reader. */
  readonly unreadTimeoutMs: number;
  /** The most bytes of answers that nobody has read. */
  readonly maxUnreadBytes: number;
  /** Bytes that a request of each path may have; where a call has several, all of them. */
  readonly requestBytes: ReadonlyMap<string, number>;
}

const HEALTH_WATCH = '/grpc.health.v1.Health/Watch';
const NO_CALLS: ConnectionCalls = { started: 0, working: 0, answered: 0 };
const SWEEP_INTERVAL_MS = 250;
/** For an unknown path grpc-js echoes the path to the client. */
const MAX_PATH_CHARACTERS = 128;
/** Largest metadata of gRPC clients by custom; announced, so that clients refuse more by themselves. */
const MAX_HEADER_BYTES = 8192;
/** Allowance of a call for the charge of its frames: 4,096 that are all but empty, none of which a library sends. */
const MOST_WASTED_BYTES = 4 << 20;
/** The most that deflate packs into a byte. */
const MOST_PACKED = 1032;

/** Calls of one connection. */
export interface ConnectionCalls {
  /** All since it came. */
  readonly started: number;
  /** Those that are open, but for what costs nothing to keep open: requests that have not arrived, and watching health. */
  readonly working: number;
  /** Those whose answer has ended. */
  readonly answered: number;
}

/** One open call, from its headers to the end of its stream. */
interface Call {
  readonly stream: ServerHttp2Stream;
  /** Whom it counts for: its address, behind a trusted proxy its client. */
  readonly peer: string;
  readonly isProxied: boolean;
  readonly connection: string;
  readonly path: string;
  readonly startedAt: number;
  readonly frames: MessageFrames;
  /** Charge of its frames beyond their bytes. */
  wasted: number;
  /** Bytes that it counts for while its request is not there as a whole. */
  unfinished: number;
  isCompressed: boolean;
  hasArrived: boolean;
  /** Bytes of its answer that are unread, and when they last became fewer. */
  unread: number;
  progressAt: number;
}

/**
 * Bounds what calls hold that no handler knows of: requests that arrive slowly or never, and answers that nobody reads.
 * Where all together hold too much, whoever holds the most loses the largest.
 */
export class CallGuard {
  private readonly calls = new Map<ServerHttp2Stream, Call>();
  private readonly ofPeer = new Map<string, number>();
  private readonly ofConnection = new Map<string, { started: number; working: number; answered: number }>();
  private unfinishedBytes = 0;
  private timer: NodeJS.Timeout | undefined;
  readonly counters = { refused: 0, slowSenders: 0, slowReaders: 0 };

  /** Bytes that grpc-js unpacks of a message at most, whatever its method. */
  private readonly mostUnpacked: number;
  private readonly slowReaders: BoundedLog;

  constructor(
    private readonly limits: CallLimits,
    log: Logger,
    /** Told of a connection that sends what no client does. */
    private readonly onViolation: (connection: string) => void = () => undefined,
    private readonly proxied?: ProxiedClients,
    private readonly rejections?: Rejections,
  ) {
    this.slowReaders = new BoundedLog((fields, message) => log.warn(fields, message));
    this.mostUnpacked = Math.max(...limits.requestBytes.values());
  }

  /** Watches the calls of a server. */
  watch(server: Http2Server): void {
    server.on('session', (session) => session.settings({ maxHeaderListSize: MAX_HEADER_BYTES }));
    server.prependListener('stream', (_stream, headers) => {
      shortenPath(headers);
      dropFarDeadline(headers);
    });
    server.on('stream', (stream, headers) => this.open(stream, headers));
  }

  /** Calls of a connection, by its peer's address and port. */
  callsOf(connection: string): ConnectionCalls {
    return this.ofConnection.get(connection) ?? NO_CALLS;
  }

  /** The connection is gone. */
  forgetConnection(connection: string): void {
    this.ofConnection.delete(connection);
  }

  get openCalls(): number {
    return this.calls.size;
  }

  /** Calls whose answers are still on their way; whoever watches the gateway's health does so for ever. */
  get unansweredCalls(): number {
    return [...this.calls.values()].filter(({ path }) => path !== HEALTH_WATCH).length;
  }

  private open(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    if (stream.destroyed || stream.closed) return;
    const connection = connectionOf(stream);
    const client = this.proxied?.clientOf(connection, headers);
    const peer = client ?? peerOf({ getPeer: () => connection });
    const now = performance.now();
    const call: Call = {
      stream,
      peer,
      isProxied: client !== undefined,
      connection,
      path: headers[':path'] as string,
      startedAt: now,
      frames: new MessageFrames(),
      wasted: 0,
      unfinished: 0,
      isCompressed: false,
      hasArrived: false,
      unread: 0,
      progressAt: now,
    };
    this.calls.set(stream, call);
    count(this.ofPeer, peer, 1);
    const { started, working, answered } = this.callsOf(connection);
    this.ofConnection.set(connection, { started: started + 1, working, answered });
    if (stream.readableEnded) this.arrived(call);
    stream.once('close', () => this.close(call));
    // Before grpc-js, which would keep what is too large; it has paused the stream, and this does not resume it.
    stream.prependListener('data', (data: Buffer) => this.arrive(call, data));
    stream.once('end', () => this.arrived(call));
    const { maxOpenCalls } = this.limits;
    if (this.calls.size > maxOpenCalls || (this.ofPeer.get(peer) ?? 0) > maxOpenCalls / 2) {
      this.counters.refused += 1;
      this.refuse(call, retryLater('QUEUE_FULL', `${this.calls.size} calls are open already`));
    }
    const refusal = client === undefined ? undefined : this.proxied?.refusalOf(client);
    if (refusal !== undefined) {
      this.counters.refused += 1;
      this.refuse(call, refusal);
    }
    this.timer ??= setInterval(() => this.sweep(), SWEEP_INTERVAL_MS).unref();
  }

  private arrive(call: Call, data: Buffer): void {
    if (call.stream.closed) return;
    const most = this.limits.requestBytes.get(call.path);
    let added = Math.max(data.length, MIN_FRAME_CHARGE);
    call.wasted += added - data.length;
    if (call.wasted > MOST_WASTED_BYTES) {
      this.counters.refused += 1;
      if (call.isProxied) this.proxied?.violated(call.peer);
      else this.onViolation(call.connection);
      this.refuse(
        call,
        new RocmForgeError('MALFORMED_MESSAGE', 'the request comes in thousands of pieces of a few bytes each'),
      );
      // Other callers' streams on the connection go on; the last that ends takes it along.
      call.stream.session?.close();
      return;
    }
    for (const { callBytes, bytes, isCompressed, isFirst } of call.frames.read(data)) {
      if (most !== undefined && callBytes > most) {
        this.counters.refused += 1;
        this.refuse(call, tooLarge(callBytes, most));
        return;
      }
      if (!isCompressed) continue;
      // grpc-js unpacks all that arrive together before it looks at the first, whatever the method takes.
      if (!isFirst) {
        this.counters.refused += 1;
        this.refuse(
          call,
          new RocmForgeError('NOT_IMPLEMENTED', 'a message after the first is compressed; send it as it is'),
        );
        return;
      }
      call.isCompressed = true;
      // It counts for what it may unpack to, until somebody has answered: when it is unpacked is not told.
      added += Math.min(bytes * MOST_PACKED, this.mostUnpacked);
    }
    call.unfinished += added;
    this.unfinishedBytes += added;
    if (this.unfinishedBytes > this.limits.maxUnfinishedBytes) this.shedUnfinished();
  }

  private refuse(call: Call, error: RocmForgeError): void {
    this.rejections?.note('grpc', call.peer, error);
    refuse(call.stream, error);
  }

  private arrived(call: Call): void {
    if (call.hasArrived || !this.calls.has(call.stream)) return;
    call.hasArrived = true;
    this.countWorking(call, 1);
    if (!call.isCompressed) this.forgetUnfinished(call);
  }

  private forgetUnfinished(call: Call): void {
    this.unfinishedBytes -= call.unfinished;
    call.unfinished = 0;
  }

  private close(call: Call): void {
    if (!this.calls.delete(call.stream)) return;
    this.forgetUnfinished(call);
    count(this.ofPeer, call.peer, -1);
    if (call.hasArrived) this.countWorking(call, -1);
    const ofConnection = this.ofConnection.get(call.connection);
    if (ofConnection !== undefined && call.stream.rstCode === constants.NGHTTP2_NO_ERROR) ofConnection.answered += 1;
    if (this.calls.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private countWorking({ connection, path }: Call, by: 1 | -1): void {
    const calls = this.ofConnection.get(connection);
    if (calls !== undefined && path !== HEALTH_WATCH) calls.working += by;
  }

  private shedUnfinished(): void {
    while (this.unfinishedBytes > this.limits.maxUnfinishedBytes) {
      // A message that is being decompressed is finished, whatever the client is told.
      const greediest = this.largestOfGreediest((call) => (call.hasArrived ? 0 : call.unfinished));
      if (greediest === undefined) return;
      this.counters.slowSenders += 1;
      this.refuse(greediest, retryLater('SLOW_SENDER', 'too many requests are on their way'));
      this.forgetUnfinished(greediest);
    }
  }

  private sweep(): void {
    const now = performance.now();
    const { requestTimeoutMs, unreadTimeoutMs, maxUnreadBytes } = this.limits;
    let unreadBytes = 0;
    for (const call of this.calls.values()) {
      const { stream } = call;
      if (!call.hasArrived && now - call.startedAt > requestTimeoutMs) {
        this.counters.slowSenders += 1;
        this.refuse(call, retryLater('SLOW_SENDER', `the request did not arrive within ${requestTimeoutMs / 1000} s`));
        continue;
      }
      if (call.hasArrived && stream.headersSent) this.forgetUnfinished(call);
      if (stream.writableLength === 0 || stream.writableLength < call.unread) call.progressAt = now;
      call.unread = stream.writableLength;
      unreadBytes += call.unread;
      if (now - call.progressAt > unreadTimeoutMs) this.cancel(call);
    }
    while (unreadBytes > maxUnreadBytes) {
      const greediest = this.largestOfGreediest((call) => call.unread);
      if (greediest === undefined) return;
      unreadBytes -= greediest.unread;
      greediest.unread = 0;
      this.cancel(greediest);
    }
  }

  /** Its reader can be told only by the code with which the stream ends: all else would wait behind what is unread. */
  private cancel({ stream, peer }: Call): void {
    this.counters.slowReaders += 1;
    this.slowReaders.note(() => ({ peer, reason: 'SLOW_READER' }), 'an answer was not read and is given up');
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /** The call that holds most, of the peer whose calls hold most in all; of several, the newest. */
  private largestOfGreediest(held: (call: Call) => number): Call | undefined {
    const sums = new Map<string, number>();
    for (const call of this.calls.values()) if (held(call) > 0) count(sums, call.peer, held(call));
    let greediest: string | undefined;
    for (const [peer, sum] of sums) if (sum > (sums.get(greediest ?? '') ?? 0)) greediest = peer;
    let largest: Call | undefined;
    for (const call of this.calls.values()) {
      if (call.peer !== greediest || held(call) === 0) continue;
      if (largest === undefined || held(call) >= held(largest)) largest = call;
    }
    return largest;
  }
}

/** The name of a stream's connection: its peer's address and port, as calls are told. */
function connectionOf({ session }: ServerHttp2Stream): string {
  return session?.socket === undefined ? '' : nameOf(session.socket);
}

function shortenPath(headers: IncomingHttpHeaders): void {
  const path = headers[':path'];
  if (path !== undefined && path.length > MAX_PATH_CHARACTERS) headers[':path'] = path.slice(0, MAX_PATH_CHARACTERS);
}

function count(counts: Map<string, number>, key: string, by: number): void {
  const left = (counts.get(key) ?? 0) + by;
  if (left === 0) counts.delete(key);
  else counts.set(key, left);
}

/** Hours, minutes and so on of a `grpc-timeout`, in milliseconds. */
const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };
/** The longest that a timer waits; grpc-js gives it what is more, and ends the call at once. */
const MOST_TIMER_MS = 2 ** 31 - 1;

/** Takes a deadline that is further away than a timer reaches out of a call's headers: its client ends the call then. */
export function dropFarDeadline(headers: IncomingHttpHeaders): void {
  const [, count, unit] = /^(\d{1,8})([HMSmun])$/.exec(String(headers['grpc-timeout'])) ?? [];
  if (Number(count) * (UNIT_MS[unit ?? ''] ?? 0) > MOST_TIMER_MS) delete headers['grpc-timeout'];
}
