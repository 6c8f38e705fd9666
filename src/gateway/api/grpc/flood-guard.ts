import {
  constants,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { BoundedLog } from '../../../shared/bounded-log.js';
import { TokenBucket } from '../../../shared/token-bucket.js';
import type { ProxiedClients } from '../../trust/proxied-clients.js';
import { nameOf } from './connection-guard.js';

/** Allowance of one connection for frames that cost their sender nothing: at once, and a second. */
export interface FloodLimits {
  /** PING and SETTINGS frames, each of which is answered. */
  readonly controlFrames: Rate;
  /** Streams that are opened and reset before anything was answered. */
  readonly resets: Rate;
}

interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** More than any client of gRPC does; nghttp2's own bound on resets is 1000 and 33. */
export const FLOOD_LIMITS: FloodLimits = {
  controlFrames: { burst: 100, perSecond: 2 },
  resets: { burst: 200, perSecond: 20 },
};

/**
 * Allowance of a trusted proxy's connection, whose streams belong to many; less than nghttp2's own bound, which ends Node's
 * clients.
 */
const PROXY_RESETS: Rate = { burst: 800, perSecond: 30 };

/** nghttp2's `NGHTTP2_ERR_BAD_CLIENT_MAGIC`. */
const BAD_CLIENT_MAGIC = -903;
/** Bytes that were written for which a ping more is taken: those that measure bandwidth follow what they were sent. */
const BYTES_A_PING = 64;
/** The answer to a ping in a record of TLS, the most that one is. */
const MOST_ACK_BYTES = 17 + 22;

/**
 * Bounds floods: grpc-js answers every ping, and a stream that is opened and reset costs it a call each time (CVE-2023-44487).
 * What an honest client sends beside a stream, such as a ping after each message to measure its bandwidth, does not count.
 * Floods of CONTINUATION frames are nghttp2's to end, which it does by the size of a header.
 *
 * A connection that floods with control frames is ended: no proxy forwards them. One that floods with resets takes no new
 * stream, and its open streams go on: they may be of other callers, behind a proxy or a shared channel.
 */
export class FloodGuard {
  readonly counters = { floods: 0 };

  constructor(
    private readonly limits: FloodLimits,
    /** Told of a connection that floods, by its peer's address and port. */
    private readonly onViolation: (connection: string) => void = () => undefined,
    private readonly nowMs: () => number = () => performance.now(),
    private readonly proxied?: ProxiedClients,
    private readonly log?: BoundedLog,
  ) {}

  /** Watches the connections of a server. */
  watch(server: Http2Server): void {
    server.on('session', (session) => this.watchSession(session));
  }

  private watchSession(session: ServerHttp2Session): void {
    const { controlFrames } = this.limits;
    const connection = nameOf(session.socket);
    const resets = this.proxied?.isProxy(connection) ? PROXY_RESETS : this.limits.resets;
    const frames = new TokenBucket(controlFrames.burst, this.nowMs());
    const unanswered = new TokenBucket(resets.burst, this.nowMs());
    let written = 0;
    const heardControl = (): void => {
      const { bytesWritten = 0 } = session.socket ?? {};
      const sent = Math.max(0, bytesWritten - written - MOST_ACK_BYTES);
      written = bytesWritten;
      frames.take(-sent / BYTES_A_PING);
      if (session.destroyed || this.hasRoom(frames, controlFrames)) return;
      this.noteFlood(connection, 'control frames');
      session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
      session.destroy();
    };
    // Floods that nghttp2 ends by itself, such as CONTINUATION without end; a client that speaks no HTTP/2 costs nothing.
    session.once('error', ({ code, errno }: NodeJS.ErrnoException) => {
      if (code !== 'ERR_HTTP2_ERROR' || errno === BAD_CLIENT_MAGIC) return;
      this.tell(connection, `HTTP/2 error ${errno}`);
      this.onViolation(connection);
    });
    session.on('ping', heardControl);
    session.on('remoteSettings', heardControl);
    session.on('stream', (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      stream.once('close', () => {
        const isReset = stream.rstCode !== constants.NGHTTP2_NO_ERROR && !stream.headersSent;
        if (!isReset) return;
        const client = this.proxied?.clientOf(connection, headers);
        if (client !== undefined) this.proxied?.cancelled(client);
        if (session.closed || this.hasRoom(unanswered, resets)) return;
        this.noteFlood(connection, 'resets');
        // GOAWAY without an error code: of one with a code Node's clients end all their streams. nghttp2 drops what is opened
        // afterwards, libraries open it on another connection, and the last stream that ends takes the connection along.
        session.close();
      });
    });
  }

  /** True if a bucket had one more, which is taken. */
  private hasRoom(bucket: TokenBucket, { burst, perSecond }: Rate): boolean {
    const left = bucket.level(burst, perSecond, this.nowMs());
    bucket.take(1);
    return left >= 1;
  }

  private noteFlood(connection: string, flood: string): void {
    this.counters.floods += 1;
    this.tell(connection, flood);
    this.onViolation(connection);
  }

  private tell(connection: string, flood: string): void {
    this.log?.note(() => ({ client: connection, flood }), 'a connection floods and is closed to new calls');
  }
}
