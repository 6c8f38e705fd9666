import type { RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamResponse } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { ResponseStream } from '../response-stream.js';

/** Messages that may wait for a reader which takes them one by one. */
const MOST_WAITING = 16;

/** A generation's stream that is taken message by message, for libraries that ask for the next one. */
export class ResponseQueue implements ResponseStream, AsyncIterable<GenerateStreamResponse> {
  private readonly waiting: GenerateStreamResponse[] = [];
  private readonly drained: (() => void)[] = [];
  private wake: (() => void) | undefined;
  private isOver = false;
  private error: RocmForgeError | undefined;

  /** @param gone aborted when nobody takes messages any more */
  constructor(private readonly disconnected: AbortSignal) {
    disconnected.addEventListener('abort', () => this.close(), { once: true });
  }

  get writableNeedDrain(): boolean {
    return this.waiting.length >= MOST_WAITING;
  }

  onceDrained(tell: () => void): void {
    this.drained.push(tell);
  }

  write(message: GenerateStreamResponse): void {
    this.waiting.push(message);
    this.wake?.();
  }

  end(): void {
    this.close();
  }

  fail(error: RocmForgeError): void {
    this.error = error;
    this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GenerateStreamResponse> {
    for (;;) {
      const next = this.waiting.shift();
      if (next !== undefined) {
        if (this.waiting.length === 0) for (const tell of this.drained.splice(0)) tell();
        yield next;
      } else if (this.error !== undefined) {
        throw this.error;
      } else if (this.isOver || this.disconnected.aborted) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.wake = resolve;
        });
      }
    }
  }

  private close(): void {
    this.isOver = true;
    this.wake?.();
  }
}
