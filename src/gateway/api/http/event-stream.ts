import type { RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamResponse } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress, Recovery } from '../../request/generation.js';
import type { ResponseStream } from '../response-stream.js';
import type { ErrorForm, NamedEvent, ResponseWriter } from './request.js';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies that join what they pass on are asked not to (nginx).
  'x-accel-buffering': 'no',
};

/** Time for immediate failures: after that the headers are sent, though there is no event yet. */
const HEADERS_MS = 1000;
/** A stream that waits has a comment as often, or proxies end it (nginx after 60 s of silence). */
const COMMENT_MS = 15_000;
const COMMENT = ': waiting\n\n';

/** The destination of a stream: a response, or a stream that is kept. */
export interface StreamedResponse {
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  readonly writableNeedDrain: boolean;
  once(event: 'close' | 'drain', tell: () => void): unknown;
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown;
  write(text: string): unknown;
  end(): unknown;
}

/** The request that a stream answers. */
export interface StreamedExchange {
  readonly response: StreamedResponse;
  readonly errorForm: ErrorForm;
  /** Ends it with an error before anything was written. */
  fail(error: RocmForgeError): void;
}

/**
 * A generation's stream as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), or as lines of
 * JSON. Its headers
 * go with the first event, or a second after the prompt was read, so that what fails at once has a status of its own.
 */
export class EventStream implements ResponseStream {
  private hasBegun = false;
  private timer: NodeJS.Timeout | undefined;
  /** When the last event was sent. */
  private sentAt = 0;

  constructor(
    private readonly exchange: StreamedExchange,
    private readonly writer: ResponseWriter,
  ) {
    exchange.response.once('close', () => clearTimeout(this.timer));
  }

  get writableNeedDrain(): boolean {
    return this.exchange.response.writableNeedDrain;
  }

  onceDrained(tell: () => void): void {
    this.exchange.response.once('drain', tell);
  }

  begin(promptIds: Uint32Array): void {
    this.writer.prompt?.(promptIds.length);
    this.timer ??= setTimeout(() => this.wait(), HEADERS_MS);
  }

  progress(requestId: string, progress: PromptProgress): void {
    this.send(this.writer.progress?.(requestId, progress) ?? []);
  }

  recovery(requestId: string, event: Recovery): void {
    this.send(this.writer.recovery?.(requestId, event) ?? []);
  }

  write(message: GenerateStreamResponse): void {
    this.send(this.writer.events(message));
  }

  end(): void {
    this.send(this.writer.lastEvents());
    this.exchange.response.end();
  }

  fail(error: RocmForgeError): void {
    if (!this.hasBegun) {
      this.exchange.fail(error);
      return;
    }
    this.send(this.writer.failure?.(error) ?? [this.errorEvent(error)]);
    this.exchange.response.end();
  }

  private errorEvent(error: RocmForgeError): string | NamedEvent {
    const data = JSON.stringify(this.exchange.errorForm(error).body);
    const { errorEvent: name } = this.writer;
    return name === undefined ? data : { name, data };
  }

  /** Nothing was sent for a while: sends the headers, and a comment where the last event is too long ago. */
  private wait(): void {
    const { response } = this.exchange;
    if (response.destroyed || response.writableEnded) return;
    const silentMs = performance.now() - this.sentAt;
    const isFirst = !this.hasBegun;
    const { lines } = this.writer;
    if (isFirst || silentMs >= COMMENT_MS) this.sendText(lines ? `${lines.waiting()}\n` : COMMENT);
    const nextMs = isFirst || silentMs >= COMMENT_MS ? COMMENT_MS : COMMENT_MS - silentMs;
    this.timer = setTimeout(() => this.wait(), nextMs);
  }

  private send(events: readonly (string | NamedEvent)[]): void {
    if (this.exchange.response.destroyed || events.length === 0) return;
    let text = '';
    for (const event of events) {
      if (this.writer.lines) text += `${typeof event === 'string' ? event : event.data}\n`;
      else text += typeof event === 'string' ? `data: ${event}\n\n` : `event: ${event.name}\ndata: ${event.data}\n\n`;
    }
    this.sendText(text);
  }

  private sendText(text: string): void {
    const { response } = this.exchange;
    const { lines } = this.writer;
    if (!this.hasBegun) response.writeHead(200, lines ? { ...HEADERS, 'content-type': lines.type } : HEADERS);
    this.hasBegun = true;
    this.sentAt = performance.now();
    response.write(text);
  }
}
