import type { RocmForgeError } from '../../../shared/errors.js';
import { callController } from '../call-signal.js';
import type { StreamedExchange, StreamedResponse } from './event-stream.js';
import type { Exchange } from './exchange.js';
import type { ErrorForm } from './request.js';

/** Charge of a piece of a stream in addition to its bytes. */
const EVENT_BYTES = 128;
/** Bytes that readers of a stream that is not kept any more may be behind, as those of an ordinary stream. */
const MOST_UNREAD_BYTES = 256 << 10;

/** Holder of streams, told of changes. */
export interface StreamKeeper {
  /** The stream has become longer. */
  grown(stream: KeptStream, bytes: number): void;
  /** It has readers, or the last one has left. */
  read(stream: KeptStream, isRead: boolean): void;
  /** Nothing of it can be read any more. */
  gone(stream: KeptStream): void;
}

/** Source of a stream. */
export interface StreamWriter {
  /** Ends the stream with an error. */
  stop(error: RocmForgeError): void;
  /** True if its model is loaded. */
  isLoaded(): boolean;
}

interface Reader {
  readonly exchange: Exchange;
  /** Index of its next piece, of all that the stream ever had. */
  next: number;
  /** Bytes of that piece that it has already. */
  skip: number;
}

/**
 * A stream that is kept for clients that come back: all of it in memory, and any number of readers, each at its own place. It
 * continues without readers.
 */
export class KeptStream implements StreamedExchange, StreamedResponse {
  private pieces: Buffer[] = [];
  /** Pieces before those, which can no longer be read. */
  private dropped = 0;
  private held = 0;
  private readonly readers = new Set<Reader>();
  private readonly listeners: Record<'close' | 'drain', (() => void)[]> = { close: [], drain: [] };
  private readonly abandoned = callController();
  private headers: Readonly<Record<string, string>> | undefined;
  private hasEvents = false;
  private isOver = false;
  private isKept = true;
  private writer: StreamWriter = { stop: () => undefined, isLoaded: () => true };

  constructor(
    readonly principal: string,
    readonly errorForm: ErrorForm,
    private readonly keeper: StreamKeeper,
  ) {}

  get response(): StreamedResponse {
    return this;
  }

  /** Aborted when it can no longer be read. */
  get signal(): AbortSignal {
    return this.abandoned.signal;
  }

  /** Memory of what can be read. */
  get bytes(): number {
    return this.held;
  }

  /** True if nothing more is written. */
  get writableEnded(): boolean {
    return this.isOver;
  }

  get destroyed(): boolean {
    return this.abandoned.signal.aborted;
  }

  get isRead(): boolean {
    return this.readers.size > 0;
  }

  get writableNeedDrain(): boolean {
    return !this.isKept && this.held > MOST_UNREAD_BYTES;
  }

  once(event: 'close' | 'drain', tell: () => void): void {
    this.listeners[event].push(tell);
  }

  writtenBy(writer: StreamWriter): void {
    this.writer = writer;
  }

  /** True if it waits for its model: nothing has come. */
  isLoading(): boolean {
    return !this.isOver && !this.hasEvents && !this.writer.isLoaded();
  }

  writeHead(_status: number, headers: Readonly<Record<string, string>>): void {
    this.headers = headers;
    for (const { exchange } of this.readers) exchange.response.writeHead(200, headers);
  }

  write(text: string): void {
    if (this.isOver || this.destroyed) return;
    const piece = Buffer.from(text);
    // A line that begins so is a comment.
    this.hasEvents ||= !text.startsWith(':');
    this.pieces.push(piece);
    this.held += piece.length + EVENT_BYTES;
    for (const reader of this.readers) this.give(reader);
    this.trim();
    this.keeper.grown(this, piece.length + EVENT_BYTES);
  }

  end(): void {
    this.over();
    for (const reader of this.readers) this.give(reader);
  }

  /** Ends it before anything was written. */
  fail(error: RocmForgeError): void {
    this.over();
    for (const { exchange } of this.readers) exchange.fail(error);
    this.keeper.gone(this);
  }

  /** Ends it with an error, for all who read it. What computes it ends. */
  stop(error: RocmForgeError): void {
    if (!this.isOver) this.writer.stop(error);
    this.cancel();
  }

  /** It can no longer be read. What computes it ends. */
  cancel(): void {
    if (this.destroyed) return;
    this.end();
    this.abandoned.abort('the stream has no reader');
    this.keeper.gone(this);
  }

  /** It is there for those who read it now, and ends with the last of them. */
  giveUp(): void {
    this.isKept = false;
    if (this.isRead) this.trim();
    else this.cancel();
  }

  /**
   * Gives all from a place on to an exchange, and what is still to come.
   *
   * @param from bytes of the stream before it; beyond its end: what is still to come
   */
  readBy(exchange: Exchange, from = 0): void {
    const { response } = exchange;
    if (response.destroyed) return;
    const reader = { exchange, next: this.dropped, skip: 0 };
    let left = from;
    for (const piece of this.pieces) {
      if (left < piece.length) break;
      left -= piece.length;
      reader.next += 1;
    }
    if (reader.next < this.dropped + this.pieces.length) reader.skip = left;
    this.readers.add(reader);
    this.keeper.read(this, true);
    response.on('drain', () => {
      this.give(reader);
      this.trim();
    });
    response.once('close', () => this.leave(reader));
    if (this.headers !== undefined) response.writeHead(200, this.headers);
    this.give(reader);
  }

  private give(reader: Reader): void {
    const { response } = reader.exchange;
    if (this.headers === undefined || response.destroyed || response.writableEnded) return;
    while (reader.next < this.dropped + this.pieces.length && !response.writableNeedDrain) {
      const piece = this.pieces[reader.next - this.dropped] as Buffer;
      response.write(reader.skip === 0 ? piece : piece.subarray(reader.skip));
      reader.next += 1;
      reader.skip = 0;
    }
    if (this.isOver && reader.next === this.dropped + this.pieces.length) response.end();
  }

  private leave(reader: Reader): void {
    this.readers.delete(reader);
    if (this.isRead) {
      this.trim();
      return;
    }
    this.keeper.read(this, false);
    if (!this.isKept) this.cancel();
  }

  /** Drops what all have read, where it is not kept. */
  private trim(): void {
    if (this.isKept) return;
    const wasBehind = this.writableNeedDrain;
    const first = Math.min(...[...this.readers].map(({ next }) => next));
    for (const piece of this.pieces.splice(0, first - this.dropped)) this.held -= piece.length + EVENT_BYTES;
    this.dropped = first;
    if (wasBehind && !this.writableNeedDrain) this.emit('drain');
  }

  private over(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.emit('close');
  }

  private emit(event: 'close' | 'drain'): void {
    for (const tell of this.listeners[event].splice(0)) tell();
  }
}
