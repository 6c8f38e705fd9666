import { constants, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import { nameOf } from './connection-guard.js';

const SWEEP_INTERVAL_MS = 500;
const RST_STREAM = 3;
const FRAME_HEADER_BYTES = 9;

/** What is known of a connection. */
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
 * Answers calls whose headers nghttp2 gave up. A header above 64 KiB is an HPACK error to it: it sends GOAWAY, then reads and
 * writes no more, tells nobody, and leaves the connection open, so that the call would wait until its own deadline. Here
 * the call is reset with ENHANCE_YOUR_CALM (RESOURCE_EXHAUSTED to gRPC) and the connection ended.
 *
 * Headers above what clients are told, but below 64 KiB each, Node resets by itself; the connection goes on.
 */
export class HeaderWatch {
  private readonly watched = new Set<Watched>();
  private readonly sockets = new Map<string, Socket>();
  private timer: NodeJS.Timeout | undefined;
  readonly counters = { refused: 0 };

  /** @param onOffence told of a connection that sends such headers, by its peer's address and port */
  constructor(private readonly onOffence: (connection: string) => void = () => undefined) {}

  /** A connection that a server gets: what a session tells of its socket cannot be written to. */
  take(socket: Socket): void {
    const name = nameOf(socket);
    this.sockets.set(name, socket);
    socket.once('close', () => {
      if (this.sockets.get(name) === socket) this.sockets.delete(name);
    });
  }

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
      else if (!isBlocked(this.sockets.get(nameOf(session.socket)))) this.refuse(watched);
      return;
    }
    if (bytesRead === watched.read) return;
    watched.read = bytesRead;
    const { lastProcStreamID = 0 } = session.state;
    if (lastProcStreamID <= watched.seen) return;
    // Refused by its size, still on its way, or nghttp2 has given up: a ping that it does not write tells which.
    watched.seen = lastProcStreamID;
    watched.probe = { written: bytesWritten };
    session.ping(() => undefined);
  }

  private refuse(watched: Watched): void {
    const { session, seen } = watched;
    const name = nameOf(session.socket);
    this.forget(watched);
    this.counters.refused += 1;
    this.onOffence(name);
    const end = (): void => session.destroy();
    const socket = this.sockets.get(name);
    if (socket === undefined) end();
    else socket.write(resetOf(seen), end);
  }

  private forget(watched: Watched): void {
    this.watched.delete(watched);
    if (this.watched.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** Whether what was written waits for its reader, and a ping behind it. Node tells that of a socket's handle alone. */
function isBlocked(socket: Socket | undefined): boolean {
  const handle: unknown = socket && Reflect.get(socket, '_handle');
  return typeof handle === 'object' && handle !== null && Number(Reflect.get(handle, 'writeQueueSize')) > 0;
}

/** RST_STREAM with ENHANCE_YOUR_CALM (RFC 9113, 6.4). */
function resetOf(stream: number): Buffer {
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + 4);
  frame.writeUIntBE(4, 0, 3);
  frame.writeUInt8(RST_STREAM, 3);
  frame.writeUInt32BE(stream, 5);
  frame.writeUInt32BE(constants.NGHTTP2_ENHANCE_YOUR_CALM, FRAME_HEADER_BYTES);
  return frame;
}
