import type { RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamResponse } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress } from '../../request/generation.js';
import type { ResponseStream } from '../response-stream.js';
import type { Exchange } from './exchange.js';
import type { NamedEvent, ResponseWriter } from './request.js';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  // Proxies that join what they pass on are asked not to (nginx).
  'x-accel-buffering': 'no',
};

/**
 * A generation's stream as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html). Its headers
 * go with the first event, so that what fails before has a status of its own.
 */
export class EventStream implements ResponseStream {
  private hasBegun = false;

  constructor(
    private readonly exchange: Exchange,
    private readonly writer: ResponseWriter,
  ) {}

  get writableNeedDrain(): boolean {
    return this.exchange.response.writableNeedDrain;
  }

  onceDrained(tell: () => void): void {
    this.exchange.response.once('drain', tell);
  }

  begin(promptIds: Uint32Array): void {
    this.writer.prompt?.(promptIds.length);
  }

  progress(requestId: string, progress: PromptProgress): void {
    this.send(this.writer.progress?.(requestId, progress) ?? []);
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
    const data = JSON.stringify(this.exchange.errorForm(error).body);
    const { errorEvent: name } = this.writer;
    this.send([name === undefined ? data : { name, data }]);
    this.exchange.response.end();
  }

  private send(events: readonly (string | NamedEvent)[]): void {
    const { response } = this.exchange;
    if (response.destroyed || events.length === 0) return;
    if (!this.hasBegun) response.writeHead(200, HEADERS);
    this.hasBegun = true;
    let text = '';
    for (const event of events) {
      text += typeof event === 'string' ? `data: ${event}\n\n` : `event: ${event.name}\ndata: ${event.data}\n\n`;
    }
    response.write(text);
  }
}
