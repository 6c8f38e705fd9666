import type { Http2Server, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { nameOf } from './connection-guard.js';

const SWEEP_INTERVAL_MS = 500;

/** State of a connection. */
interface Watched {
  readonly session: ServerHttp2Session;
  /** Bytes that had been read of it at the last look. */
  read: number;
  /** The last stream whose headers have come, or that nghttp2 was seen to have refused. */
  seen: number;
  /** A ping to find out whether nghttp2 still writes, and how much had been written then. */
  probe: { readonly written: number } | undefined;
}

/**
 * Ends connections on whose headers nghttp2 gave up. A header above 64 KiB is an HPACK error to it: it sends GOAWAY, then reads
 * and writes no more, tells nobody, and leaves the connection open, so that the call would wait until its own deadline.
 *
 * Headers above what clients are told, but below 64 KiB each, Node resets by itself; the connection goes on.
 */
export class HeaderWatch {
  private readonly watched = new Set<Watched>();
  private timer: NodeJS.Timeout | undefined;
  readonly counters = { refused: 0 };

  /** @param onViolation told of a connection that sends such headers, by its peer's address and port */
  constructor(private readonly onViolation: (connection: string) => void = () => undefined) {}

  /** Watches the connections of a server. */
  watch(server: Http2Server): void {
    server.on('session', (session) => {
      const watched: Watched = { session, read: 0, seen: 0, probe: undefined };
      this.watched.add(watched);
      session.on('stream', ({ id }: ServerHttp2Stream) => {
        watched.seen = Math.max(watched.seen, id ?? 0);
      });
      session.once('close', () => this.forget(watched));
      this.timer ??= setInterval(() => this.sweep(), SWEEP_INTERVAL_MS).unref();
    });
  }

  private sweep(): void {
    for (const watched of this.watched) this.look(watched);
  }

  private look(watched: Watched): void {
    const { session, probe } = watched;
    if (session.destroyed) return;
    const { bytesRead, bytesWritten } = session.socket;
    if (probe !== undefined) {
      if (bytesWritten !== probe.written) watched.probe = undefined;
      else if (!isBlocked(session)) this.refuse(watched);
      return;
    }
    if (bytesRead === watched.read) return;
    watched.read = bytesRead;
    const { lastProcStreamID = 0 } = session.state;
    if (lastProcStreamID <= watched.seen) return;
    // Refused by its size, still on its way, or nghttp2 has given up: a ping that it does not write tells which.
    watched.seen = lastProcStreamID;
    if (session.ping(() => undefined)) watched.probe = { written: bytesWritten };
  }

  private refuse(watched: Watched): void {
    const { session } = watched;
    const name = nameOf(session.socket);
    this.forget(watched);
    this.counters.refused += 1;
    this.onViolation(name);
    // Nothing can be written: not by nghttp2, nor beside it, which Node's own assertions end the process for.
    session.destroy();
  }

  private forget(watched: Watched): void {
    this.watched.delete(watched);
    if (this.watched.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** True if written bytes, and a ping behind them, wait for their reader. Node reports that only for a socket's handle. */
function isBlocked({ socket }: ServerHttp2Session): boolean {
  const handle: unknown = Reflect.get(socket, '_handle');
  return typeof handle === 'object' && handle !== null && Number(Reflect.get(handle, 'writeQueueSize')) > 0;
}
