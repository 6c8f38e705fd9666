import { readFileSync } from 'node:fs';

/** The most connections of those who read metrics, which are beside these. */
export const METRICS_CONNECTIONS = 16;
/** Files that are left for executors, model files and logs, and for metrics. */
const RESERVED_FILES = 64 + METRICS_CONNECTIONS;
export const FEWEST_CONNECTIONS = 8;
/** The most connections that are refused and held: each is a file and what it has sent, 64 KiB at most. */
const MOST_HELD = 256;

/** A connection that does nothing and may be closed. */
export interface Idle {
  /** Number of its peer's connections; the peer with the most loses one first. */
  readonly ofPeer: number;
  /** The least goes first. */
  readonly worth: number;
  close(): void;
}

/** Connections of a server. */
export interface SharingServer {
  readonly open: number;
  countOf(peer: string): number;
  /** Connection to close among idle ones whose peers may lose one. @param countOf how many a peer has */
  idlest(mayClose: (peer: string) => boolean, countOf: (peer: string) => number): Idle | undefined;
}

/** The one of two that is closed first, the first where they are alike. */
export function lesser(one: Idle | undefined, other: Idle | undefined): Idle | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return (one.ofPeer - other.ofPeer || other.worth - one.worth) < 0 ? other : one;
}

/**
 * The files that a process may open, which the connections of all its servers share: those that are taken, and those that are
 * held. A connection that does nothing at one server makes room for a new one at another.
 */
export class OpenFiles {
  private readonly servers: SharingServer[] = [];
  private held = 0;
  private readonly mostHeld: number;
  /** The most connections that are taken, at all servers together. */
  readonly most: number;

  /**
   * @param wanted connections that all servers together may have where files are no matter
   * @param files that this process may have open
   */
  constructor(wanted: number, files = openFileLimit()) {
    const free = files - RESERVED_FILES;
    // If there are few files, most are for accepted connections.
    this.mostHeld = Math.max(FEWEST_CONNECTIONS, Math.min(MOST_HELD, free - wanted));
    this.most = Math.max(FEWEST_CONNECTIONS, Math.min(wanted, free - this.mostHeld));
  }

  join(server: SharingServer): void {
    this.servers.push(server);
  }

  /** Takes a file for a refused connection, where there is one to be had. It is for who has it to {@link letGo}. */
  hold(): boolean {
    if (this.held >= this.mostHeld) return false;
    this.held += 1;
    return true;
  }

  letGo(): void {
    this.held -= 1;
  }

  /**
   * True if there is room for another connection of a peer, which may have so many, if necessary by closing one of any server.
   */
  hasRoom(peer: string, mostOwn = this.most / 2): boolean {
    const own = this.countOf(peer);
    if (own >= mostOwn) return this.closeIdle((other) => other === peer);
    if (this.servers.reduce((sum, { open }) => sum + open, 0) < this.most) return true;
    return this.closeIdle((other) => other === peer || this.countOf(other) > own);
  }

  private readonly countOf = (peer: string): number =>
    this.servers.reduce((sum, server) => sum + server.countOf(peer), 0);

  private closeIdle(mayClose: (peer: string) => boolean): boolean {
    const idle = this.servers
      .map((server) => server.idlest(mayClose, this.countOf))
      .reduce((least, one) => lesser(least, one), undefined);
    idle?.close();
    return idle !== undefined;
  }
}

/** Files that this process may have open. */
function openFileLimit(): number {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1];
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
}
