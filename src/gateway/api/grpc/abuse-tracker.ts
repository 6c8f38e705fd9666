import type { Socket } from 'node:net';
import { TokenBucket } from '../../../shared/token-bucket.js';
import type { OpenFiles } from './open-files.js';

/** Remaining allowance of a peer: at once, and a second. */
interface Rate {
  readonly burst: number;
  readonly perSecond: number;
}

/** Connections that were ended for what no client does. */
const VIOLATIONS: Rate = { burst: 5, perSecond: 1 };
/** Connections that ended before any answer had: probes of a port, clients that cancel, and floods of both. */
const FRUITLESS: Rate = { burst: 50, perSecond: 20 };
/** Peers of which something is known. */
export const MOST_PEERS = 4096;
/** Time for which new connections of a refused peer are rejected. */
const HOLD_MS = 1000;

interface Record {
  readonly violations: TokenBucket;
  readonly fruitless: TokenBucket;
  /** Its connections count as fruitless from their start, until an answer has ended and the bucket is full again. */
  paysAhead: boolean;
}

/**
 * Peers whose connections cost much and bring nothing. A new one of theirs is not closed at once, as whoever floods would only
 * open the next: it is held for a second with nothing made of it. Their other connections live on.
 */
export class AbuseTracker {
  /** By when they were last written to, oldest first; those that were spared once stand behind. */
  private readonly records = new Map<string, Record>();

  constructor(private readonly files: Pick<OpenFiles, 'hold' | 'letGo'>) {}

  /** A connection did what no client does and what cost much more than its bytes. It is for its owner to end. */
  violated(peer: string): void {
    spend(this.recordOf(peer).violations, VIOLATIONS);
  }

  /**
   * A new connection of a peer is taken. Who has run out pays for it now, not when it ends: else, whenever one was due, as
   * many as it cares to would come before any had ended.
   *
   * @returns tells how it ended
   */
  begun(peer: string): (hadAnswer: boolean) => void {
    const begun = this.recordOf(peer);
    if (begun.paysAhead && level(begun.fruitless, FRUITLESS) >= FRUITLESS.burst) begun.paysAhead = false;
    const hasPaid = begun.paysAhead;
    if (hasPaid) begun.fruitless.take(1);
    return (hadAnswer) => {
      // The one from its beginning may have been forgotten meanwhile: else what many do at once would be written nowhere.
      const record = this.recordOf(peer);
      const { fruitless } = record;
      if (hadAnswer && hasPaid) fruitless.take(-1);
      if (!hadAnswer && !hasPaid) spend(fruitless, FRUITLESS);
      if (level(fruitless, FRUITLESS) < 1) record.paysAhead = true;
    };
  }

  /** True if new connections of a peer are refused now. */
  has(peer: string): boolean {
    const record = this.records.get(peer);
    return record !== undefined && isRefused(record);
  }

  /** Holds a refused connection, or closes it where too many are held. */
  hold(socket: Socket): void {
    if (!this.files.hold()) {
      socket.destroy();
      return;
    }
    // Else its end would be answered by ours at once.
    socket.allowHalfOpen = true;
    const timer = setTimeout(() => socket.destroy(), HOLD_MS).unref();
    socket.on('error', () => undefined);
    socket.once('close', () => {
      clearTimeout(timer);
      this.files.letGo();
    });
  }

  private recordOf(peer: string): Record {
    const now = performance.now();
    const known = this.records.get(peer);
    if (known === undefined && this.records.size >= MOST_PEERS) this.forgetOne();
    const record = known ?? {
      violations: new TokenBucket(VIOLATIONS.burst, now),
      fruitless: new TokenBucket(FRUITLESS.burst, now),
      paysAhead: false,
    };
    this.records.delete(peer);
    this.records.set(peer, record);
    return record;
  }

  /** The oldest whose connections are not refused now, so that nobody is let off by others' coming; else the oldest. */
  private forgetOne(): void {
    for (let looks = this.records.size; looks > 0; looks--) {
      const [peer, record] = this.records.entries().next().value as [string, Record];
      this.records.delete(peer);
      if (!isRefused(record)) return;
      this.records.set(peer, record);
    }
    this.records.delete(this.records.keys().next().value as string);
  }
}

const level = (bucket: TokenBucket, { burst, perSecond }: Rate): number =>
  bucket.level(burst, perSecond, performance.now());

const isSpent = (bucket: TokenBucket, rate: Rate): boolean => level(bucket, rate) < 1;

const isRefused = ({ violations, fruitless }: Record): boolean =>
  isSpent(violations, VIOLATIONS) || isSpent(fruitless, FRUITLESS);

/** The debt is bounded, so that a peer that stops is served again within seconds. */
function spend(bucket: TokenBucket, rate: Rate): void {
  if (level(bucket, rate) > -rate.perSecond) bucket.take(1);
}
