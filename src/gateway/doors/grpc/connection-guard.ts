import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import type { CallGuard } from './call-guard.js';
import { peerOf } from './peer.js';

export interface ConnectionLimits {
  /** The most connections; fewer where the process may open few files. */
  readonly maxConnections: number;
  /** How long a connection may take to say that it speaks HTTP/2. */
  readonly handshakeTimeoutMs: number;
}

interface Connection {
  readonly socket: Socket;
  readonly name: string;
  readonly peer: string;
  readonly acceptedAt: number;
}

/** The least bytes of a client that speaks HTTP/2: the preface and the head of its settings. */
const HANDSHAKE_BYTES = 24 + 9;
const SWEEP_INTERVAL_MS = 1000;
/** The most connections of those who read metrics, which are beside these. */
export const METRICS_CONNECTIONS = 16;
/** Files that are left for executors, model files and logs, and for metrics. */
const RESERVED_FILES = 64 + METRICS_CONNECTIONS;
const FEWEST_CONNECTIONS = 8;

/**
 * Bounds connections. When there are too many, one without a call makes room for a new one: first those of which nothing
 * was ever heard, then of the peer that has the most, the oldest.
 */
export class ConnectionGuard {
  private readonly connections = new Map<Socket, Connection>();
  private readonly most: number;
  private timer: NodeJS.Timeout | undefined;
  readonly counters = { refused: 0, closed: 0 };

  constructor(
    private readonly limits: ConnectionLimits,
    private readonly calls: CallGuard,
  ) {
    this.most = Math.max(FEWEST_CONNECTIONS, Math.min(limits.maxConnections, openFileLimit() - RESERVED_FILES));
  }

  get open(): number {
    return this.connections.size;
  }

  /** Whether a new connection is taken. */
  admit(socket: Socket): boolean {
    const { remoteAddress = '', remotePort } = socket;
    const name = remotePort === undefined ? remoteAddress : `${remoteAddress}:${remotePort}`;
    const peer = peerOf({ getPeer: () => name });
    if (this.connections.size >= this.most && !this.makeRoom()) {
      this.counters.refused += 1;
      return false;
    }
    this.connections.set(socket, { socket, name, peer, acceptedAt: performance.now() });
    socket.once('close', () => this.forget(socket));
    this.timer ??= setInterval(() => this.sweep(), SWEEP_INTERVAL_MS).unref();
    return true;
  }

  /** Closes a connection without a call, if there is one. */
  private makeRoom(): boolean {
    const counts = new Map<string, number>();
    for (const { peer } of this.connections.values()) counts.set(peer, (counts.get(peer) ?? 0) + 1);
    // What never spoke HTTP/2 goes before what never called, and that before what called once.
    const worth = ({ socket, name }: Connection) =>
      socket.bytesRead < HANDSHAKE_BYTES ? 0 : this.calls.callsOf(name).started === 0 ? 1 : 2;
    const byWorth = (a: Connection, b: Connection) =>
      worth(a) - worth(b) || (counts.get(b.peer) ?? 0) - (counts.get(a.peer) ?? 0);
    let least: Connection | undefined;
    for (const connection of this.connections.values()) {
      if (this.calls.callsOf(connection.name).open > 0) continue;
      if (least === undefined || byWorth(connection, least) < 0) least = connection;
    }
    if (least === undefined) return false;
    this.close(least);
    return true;
  }

  private sweep(): void {
    const before = performance.now() - this.limits.handshakeTimeoutMs;
    for (const connection of this.connections.values()) {
      if (connection.acceptedAt < before && connection.socket.bytesRead < HANDSHAKE_BYTES) this.close(connection);
    }
  }

  private close({ socket }: Connection): void {
    this.counters.closed += 1;
    this.forget(socket);
    socket.destroy();
  }

  private forget(socket: Socket): void {
    this.calls.forgetConnection(this.connections.get(socket)?.name ?? '');
    this.connections.delete(socket);
    if (this.connections.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** Files that this process may have open. */
function openFileLimit(): number {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}
