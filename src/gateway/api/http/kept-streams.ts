import { RocmForgeError } from '../../../shared/errors.js';
import type { Exchange } from './exchange.js';
import { KeptStream, type StreamKeeper } from './kept-stream.js';

/** Limits of kept streams: memory of one, of a principal's and of all, their number, and the time (ms) that one is kept unread. */
const DEFAULT_LIMITS = {
  ...{ bytesOfStream: 8 << 20, bytesOfPrincipal: 16 << 20, bytes: 64 << 20 },
  ...{ streamsOfPrincipal: 32, streams: 4096, unreadMs: 300_000 },
} as const;
const MOST_NAME_CHARACTERS = 512;
const HEADER = 'x-conversation-id';

interface Entry {
  readonly stream: KeptStream;
  readonly key: string;
  timer: NodeJS.Timeout | undefined;
}

interface Account {
  bytes: number;
  streams: number;
}

/**
 * Streams that clients come back to, by a name that is the client's choice: those of a principal are seen by no other. One without
 * readers for a while is dropped, and what computes it ends. Where there is no room, the oldest that have ended are dropped, first the
 * principal's own; where none has ended, the stream that needs the room is not kept any more.
 */
export class KeptStreams implements StreamKeeper {
  /** By principal and name, oldest first. */
  private readonly entries = new Map<string, Entry>();
  private readonly ofStream = new Map<KeptStream, Entry>();
  private readonly accounts = new Map<string, Account>();
  private bytes = 0;
  private dropped = 0;
  private isEnding = false;

  constructor(private readonly limits: Readonly<Record<keyof typeof DEFAULT_LIMITS, number>> = DEFAULT_LIMITS) {}

  /** Number of them, their memory, and those that were dropped so far as there was no room. */
  get counts(): { readonly streams: number; readonly bytes: number; readonly dropped: number } {
    return { streams: this.entries.size, bytes: this.bytes, dropped: this.dropped };
  }

  /**
   * The kept stream of an exchange that names one in `x-conversation-id`. It takes the place of an earlier one of the name.
   *
   * @returns undefined where it names none, or there are as many as may be, and all are being written
   * @throws RocmForgeError `INVALID_FIELD`
   */
  begin(exchange: Exchange): KeptStream | undefined {
    const given = exchange.request.headers[HEADER];
    if (typeof given !== 'string' || given === '' || exchange.signal.aborted) return undefined;
    checkName(given, HEADER);
    const { principal } = exchange.client;
    const key = keyOf(principal, given);
    const earlier = this.entries.get(key)?.stream;
    this.forget(earlier);
    earlier?.giveUp();
    while (this.entries.size >= this.limits.streams) if (!this.dropEnded()) return undefined;
    while ((this.accounts.get(principal)?.streams ?? 0) >= this.limits.streamsOfPrincipal) {
      if (!this.dropEnded(principal)) return undefined;
    }
    const stream = new KeptStream(principal, exchange.errorForm, this);
    const entry = { stream, key, timer: undefined };
    this.entries.set(key, entry);
    this.ofStream.set(stream, entry);
    this.accountOf(principal).streams += 1;
    stream.readBy(exchange);
    return stream;
  }

  /** @throws RocmForgeError `STREAM_NOT_FOUND`, `INVALID_FIELD` */
  find(principal: string, name: string): KeptStream {
    checkName(name, 'conv_id');
    const found = this.entries.get(keyOf(principal, name));
    if (found !== undefined) return found.stream;
    const message = `the stream "${name}" is not kept here (any more); send the request again`;
    throw new RocmForgeError('STREAM_NOT_FOUND', message, { field: 'conv_id' });
  }

  /** Ends those without readers, now or later: no client can come back. */
  endUnread(): void {
    this.isEnding = true;
    for (const { stream } of [...this.entries.values()]) if (!stream.isRead) stream.cancel();
  }

  grown(stream: KeptStream, bytes: number): void {
    const { principal } = stream;
    if (!this.ofStream.has(stream)) return;
    const account = this.accountOf(principal);
    account.bytes += bytes;
    this.bytes += bytes;
    const { limits } = this;
    let hasRoom = stream.bytes <= limits.bytesOfStream;
    while (hasRoom && account.bytes > limits.bytesOfPrincipal) hasRoom = this.dropEnded(principal);
    while (hasRoom && this.bytes > limits.bytes) hasRoom = this.dropEnded(principal) || this.dropEnded();
    if (hasRoom) return;
    this.dropped += 1;
    this.forget(stream);
    stream.giveUp();
  }

  read(stream: KeptStream, isRead: boolean): void {
    const entry = this.ofStream.get(stream);
    if (entry === undefined) return;
    clearTimeout(entry.timer);
    if (!isRead && this.isEnding) stream.cancel();
    else if (!isRead) entry.timer = setTimeout(() => stream.cancel(), this.limits.unreadMs).unref();
  }

  gone(stream: KeptStream): void {
    this.forget(stream);
  }

  /** Drops the oldest that has ended, of one principal or of all. @returns false if there is none */
  private dropEnded(principal?: string): boolean {
    for (const { stream } of this.entries.values()) {
      if (!stream.writableEnded || (principal !== undefined && stream.principal !== principal)) continue;
      this.dropped += 1;
      this.forget(stream);
      stream.giveUp();
      return true;
    }
    return false;
  }

  private forget(stream: KeptStream | undefined): void {
    const entry = stream && this.ofStream.get(stream);
    if (stream === undefined || entry === undefined) return;
    clearTimeout(entry.timer);
    this.ofStream.delete(stream);
    if (this.entries.get(entry.key) === entry) this.entries.delete(entry.key);
    const account = this.accountOf(stream.principal);
    account.bytes -= stream.bytes;
    account.streams -= 1;
    this.bytes -= stream.bytes;
    if (account.streams === 0) this.accounts.delete(stream.principal);
  }

  private accountOf(principal: string): Account {
    const account = this.accounts.get(principal) ?? { bytes: 0, streams: 0 };
    this.accounts.set(principal, account);
    return account;
  }
}

const keyOf = (principal: string, name: string): string => JSON.stringify([principal, name]);

function checkName(name: string, field: string): void {
  if (name.length <= MOST_NAME_CHARACTERS) return;
  const message = `${field}: it has ${name.length} characters; at most ${MOST_NAME_CHARACTERS} are allowed`;
  throw new RocmForgeError('INVALID_FIELD', message, { field });
}
