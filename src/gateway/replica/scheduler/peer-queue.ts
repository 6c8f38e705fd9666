import type { Sequence } from '../../request/sequence.js';
import { DepartureIntervals } from './departure-intervals.js';

/** Entry of the queue. */
export interface Waiting {
  readonly sequences: number;
  /** That are known of them. */
  readonly tokens: number;
}

/** Sequences of one peer in the scheduler. */
interface Peer {
  /** By priority. */
  readonly waiting: Sequence[];
  /** Tokens that are known of those that wait. */
  tokens: number;
  /** Slots that its sequences hold. */
  slots: number;
  /** When it came, or was last given a slot. */
  turn: number;
}

/**
 * The sequences that wait, by who sent them.
 *
 * A slot goes to the highest priority; of one priority, to the peer that holds the fewest slots, then to the one that has
 * waited longest since its last; of one peer, to its oldest sequence. So many requests of one peer do not delay those of
 * another, and of peers that hold equally many each has its turn.
 */
export class PeerQueue {
  readonly departures = new DepartureIntervals();
  private readonly peers = new Map<string, Peer>();
  private turns = 0;
  private count = 0;
  private tokenCount = 0;

  get size(): number {
    return this.count;
  }

  /** Tokens that are known of those that wait. */
  get tokens(): number {
    return this.tokenCount;
  }

  /** Peers that wait or hold slots. */
  get peerCount(): number {
    return this.peers.size;
  }

  /** Number of waiting sequences of a peer, and of their known tokens. */
  waitingOf(peer: string): Waiting {
    const { waiting, tokens } = this.peers.get(peer) ?? { waiting: [], tokens: 0 };
    return { sequences: waiting.length, tokens };
  }

  /** Waiting sequences by peer. */
  *holdings(): Generator<readonly [peer: string, held: Waiting]> {
    for (const peer of this.peers.keys()) yield [peer, this.waitingOf(peer)];
  }

  /** The sequences of a peer that wait, highest-priority first. */
  waitingSequences(peer: string): readonly Sequence[] {
    return this.peers.get(peer)?.waiting ?? [];
  }

  slotsOf(peer: string): number {
    return this.peers.get(peer)?.slots ?? 0;
  }

  add(sequence: Sequence): void {
    const { waiting } = this.peerOf(sequence);
    // Most come last.
    const after = waiting.findLastIndex((other) => byPriority(other, sequence) < 0);
    waiting.splice(after + 1, 0, sequence);
    this.counted(sequence, 1);
  }

  remove(sequence: Sequence): void {
    const { waiting } = this.peerOf(sequence);
    const at = waiting.indexOf(sequence);
    if (at >= 0) {
      waiting.splice(at, 1);
      this.counted(sequence, -1);
    }
    this.forgetIdle(sequence);
  }

  /** All that wait, highest-priority first; none waits any more. */
  takeAll(): readonly Sequence[] {
    const sequences = [...this.peers.values()].flatMap(({ waiting }) => waiting).sort(byPriority);
    for (const sequence of sequences) this.remove(sequence);
    return sequences;
  }

  /** A sequence was given a slot. */
  took(sequence: Sequence): void {
    const peer = this.peerOf(sequence);
    peer.slots += 1;
    peer.turn = ++this.turns;
    this.departures.left(this.count, performance.now());
  }

  /** A sequence gave its slot back. */
  gaveBack(sequence: Sequence): void {
    this.peerOf(sequence).slots -= 1;
    this.forgetIdle(sequence);
  }

  /** Whose turn it is among those that may start. */
  next(mayStart: (sequence: Sequence) => boolean): Sequence | undefined {
    let best: { sequence: Sequence; peer: Peer } | undefined;
    for (const { sequence, peer } of this.firsts(mayStart)) {
      if (best === undefined || byTurn(sequence, peer, best) < 0) best = { sequence, peer };
    }
    return best?.sequence;
  }

  /** The highest-priority sequence of each peer that may start. */
  *firsts(mayStart: (sequence: Sequence) => boolean): Generator<{ sequence: Sequence; peer: Peer }> {
    for (const peer of this.peers.values()) {
      const sequence = peer.waiting.find(mayStart);
      if (sequence !== undefined) yield { sequence, peer };
    }
  }

  /** Throws unless the slots counted for each peer are those that its sequences hold. */
  check(holders: readonly Sequence[]): void {
    for (const { options } of holders) {
      const held = holders.filter((other) => other.options.peer === options.peer).length;
      const counted = this.slotsOf(options.peer ?? '');
      if (held !== counted) throw new Error(`peer "${options.peer}" holds ${held} slots, counted ${counted}`);
    }
  }

  private peerOf(sequence: Sequence): Peer {
    const name = sequence.options.peer ?? '';
    let peer = this.peers.get(name);
    if (peer === undefined) {
      // Behind those that have waited since before it came.
      peer = { waiting: [], tokens: 0, slots: 0, turn: ++this.turns };
      this.peers.set(name, peer);
    }
    return peer;
  }

  private forgetIdle(sequence: Sequence): void {
    const { waiting, slots } = this.peerOf(sequence);
    if (waiting.length === 0 && slots === 0) this.peers.delete(sequence.options.peer ?? '');
  }

  private counted(sequence: Sequence, sign: 1 | -1): void {
    this.count += sign;
    this.tokenCount += sign * sequence.known;
    this.peerOf(sequence).tokens += sign * sequence.known;
  }
}

/** Higher priority first, then older first. */
export function byPriority(a: Sequence, b: Sequence): number {
  return b.options.priority - a.options.priority || a.arrival - b.arrival;
}

function byTurn(sequence: Sequence, peer: Peer, best: { readonly sequence: Sequence; readonly peer: Peer }): number {
  return (
    best.sequence.options.priority - sequence.options.priority ||
    peer.slots - best.peer.slots ||
    peer.turn - best.peer.turn
  );
}
