import type { Http2Server } from 'node:http2';
import type { Socket } from 'node:net';
import type { ProxiedClients } from '../../trust/proxied-clients.js';
import { peerOf } from '../peer.js';
import { AbuseTracker } from './abuse-tracker.js';
import type { CallGuard } from './call-guard.js';
import { FEWEST_CONNECTIONS, type Idle, lesser, OpenFiles, type SharingServer } from './open-files.js';

export interface ConnectionLimits {
  /** The most connections, and half of them of one peer; fewer where the process may open few files. */
  readonly maxConnections: number;
  /** Time that a connection may take to prove that it speaks HTTP/2, a TLS handshake included. */
  readonly handshakeTimeoutMs: number;
}

interface Connection {
  readonly socket: Socket;
  readonly name: string;
  readonly peer: string;
  readonly acceptedAt: number;
  /** Tells the abusive peers' book how it ended. */
  readonly ended: (hadAnswer: boolean) => void;
  /** It has said that it speaks HTTP/2, under TLS where that is demanded. */
  speaks: boolean;
}

const SWEEP_INTERVAL_MS = 1000;

/**
 * Bounds connections. When there are too many, or too many of one peer, one that does nothing makes room for a new one: of
 * the peer that has the most; of those, first what never spoke HTTP/2, then what never called, then the oldest. Nobody loses
 * a connection to a peer that has as many. A trusted proxy may have all of them.
 */
export class ConnectionGuard implements SharingServer {
  private readonly connections = new Map<Socket, Connection>();
  private readonly byName = new Map<string, Connection>();
  private readonly ofPeer = new Map<string, number>();
  private readonly most: number;
  private timer: NodeJS.Timeout | undefined;
  private readonly abuse: AbuseTracker;
  readonly counters = { refused: 0, closed: 0, held: 0 };

  constructor(
    private readonly limits: ConnectionLimits,
    private readonly calls: Pick<CallGuard, 'callsOf' | 'forgetConnection'>,
    private readonly files = new OpenFiles(limits.maxConnections),
    private readonly proxied?: Pick<ProxiedClients, 'isProxy'>,
  ) {
    this.most = Math.max(FEWEST_CONNECTIONS, Math.min(limits.maxConnections, files.most));
    this.abuse = new AbuseTracker(files);
    files.join(this);
  }

  get open(): number {
    return this.connections.size;
  }

  /** Hears which connections of a server begin to speak HTTP/2: those whose settings have come. */
  watch(server: Http2Server): void {
    server.on('session', (session) => {
      const name = nameOf(session.socket);
      session.once('remoteSettings', () => this.heard(name));
    });
  }

  /** A connection has said that it speaks HTTP/2. @param name its peer's address and port */
  heard(name: string): void {
    const connection = this.byName.get(name);
    if (connection !== undefined) connection.speaks = true;
  }

  /** True if a new connection is accepted; else it is ended here, now or in a second. */
  admit(socket: Socket): boolean {
    const name = nameOf(socket);
    const peer = peerOf({ getPeer: () => name });
    // The clients of a proxy cause the load of its connections.
    const isProxy = this.proxied?.isProxy(name) ?? false;
    if (!isProxy && this.abuse.has(peer)) {
      this.counters.held += 1;
      this.abuse.hold(socket);
      return false;
    }
    if (!this.hasRoom(peer, isProxy ? this.most : this.most / 2)) {
      this.counters.refused += 1;
      socket.destroy();
      return false;
    }
    const ended = isProxy ? () => undefined : this.abuse.begun(peer);
    const connection = { socket, name, peer, acceptedAt: performance.now(), ended, speaks: false };
    this.connections.set(socket, connection);
    this.byName.set(name, connection);
    this.ofPeer.set(peer, this.countOf(peer) + 1);
    socket.once('close', () => this.forget(socket));
    this.timer ??= setInterval(() => this.sweep(), SWEEP_INTERVAL_MS).unref();
    return true;
  }

  /** See {@link AbuseTracker.violated}. */
  violated(name: string): void {
    if (!this.proxied?.isProxy(name)) this.abuse.violated(peerOf({ getPeer: () => name }));
  }

  countOf(peer: string): number {
    return this.ofPeer.get(peer) ?? 0;
  }

  idlest(mayClose: (peer: string) => boolean, countOf: (peer: string) => number): Idle | undefined {
    let least: Idle | undefined;
    for (const connection of this.connections.values()) {
      const { name, peer, speaks } = connection;
      const { working, started } = this.calls.callsOf(name);
      if (working > 0 || !mayClose(peer)) continue;
      // Connections that never spoke HTTP/2 go before those that never called, and those before connections that called once.
      const worth = !speaks ? 0 : started === 0 ? 1 : 2;
      least = lesser(least, { ofPeer: countOf(peer), worth, close: () => this.close(connection) });
    }
    return least;
  }

  /** True if there is room for one more of a peer, which may have so many, if necessary by closing another. */
  private hasRoom(peer: string, mostOwn: number): boolean {
    const own = this.countOf(peer);
    if (own >= mostOwn) return this.closeIdle((other) => other === peer);
    if (this.connections.size >= this.most) {
      return this.closeIdle((other) => other === peer || this.countOf(other) > own);
    }
    return this.files.hasRoom(peer, (mostOwn / this.most) * this.files.most);
  }

  private closeIdle(mayClose: (peer: string) => boolean): boolean {
    const idle = this.idlest(mayClose, (peer) => this.countOf(peer));
    idle?.close();
    return idle !== undefined;
  }

  private sweep(): void {
    const before = performance.now() - this.limits.handshakeTimeoutMs;
    for (const connection of this.connections.values()) {
      if (connection.acceptedAt < before && !connection.speaks) this.close(connection);
    }
  }

  private close({ socket }: Connection): void {
    this.counters.closed += 1;
    this.forget(socket);
    socket.destroy();
  }

  private forget(socket: Socket): void {
    const connection = this.connections.get(socket);
    if (connection === undefined) return;
    const { name, peer } = connection;
    connection.ended(this.calls.callsOf(name).answered > 0);
    this.calls.forgetConnection(name);
    this.connections.delete(socket);
    if (this.byName.get(name) === connection) this.byName.delete(name);
    const left = this.countOf(peer) - 1;
    if (left === 0) this.ofPeer.delete(peer);
    else this.ofPeer.set(peer, left);
    if (this.connections.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }
}

/** A connection by its peer's address and port, as calls are told. */
export function nameOf({ remoteAddress = '', remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return remotePort === undefined ? remoteAddress : `${remoteAddress}:${remotePort}`;
}
