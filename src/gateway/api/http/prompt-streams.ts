import { asRocmForgeError, type RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamResponse } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress, Recovery } from '../../request/generation.js';
import type { ResponseStream } from '../response-stream.js';

/**
 * Streams the generations of several prompts into one stream, one after the other. The completions are numbered through.
 *
 * @param run    runs one and resolves when it is under way, or when nobody waits for it
 * @param signal aborted when nobody waits any more
 * @throws RocmForgeError why the first cannot run: nothing was written then
 */
export async function streamEach<Message>(
  messages: readonly Message[],
  stream: ResponseStream,
  signal: AbortSignal,
  run: (message: Message, part: ResponseStream) => Promise<void>,
): Promise<void> {
  let completions = 0;
  for (const [i, message] of messages.entries()) {
    const part = new PartStream(stream, completions, i === messages.length - 1, signal);
    try {
      await run(message, part);
    } catch (error) {
      if (i === 0) throw error;
      stream.fail(asRocmForgeError(error));
      return;
    }
    if (!(await part.hasEnded)) return;
    completions += part.completions;
  }
}

/** The part of a stream that one generation writes. */
class PartStream implements ResponseStream {
  /** Number of ended streams. */
  completions = 0;
  /** Resolves when it has: whether the next may begin. */
  readonly hasEnded: Promise<boolean>;
  private settle: (mayGoOn: boolean) => void = () => undefined;

  constructor(
    private readonly stream: ResponseStream,
    private readonly offset: number,
    private readonly isLast: boolean,
    signal: AbortSignal,
  ) {
    this.hasEnded = new Promise((resolve) => {
      this.settle = resolve;
    });
    if (signal.aborted) this.settle(false);
    signal.addEventListener('abort', () => this.settle(false), { once: true });
  }

  get writableNeedDrain(): boolean {
    return this.stream.writableNeedDrain;
  }

  onceDrained(tell: () => void): void {
    this.stream.onceDrained(tell);
  }

  begin(promptIds: Uint32Array): void {
    this.stream.begin?.(promptIds);
  }

  progress(requestId: string, progress: PromptProgress): void {
    this.stream.progress?.(requestId, progress);
  }

  recovery(requestId: string, event: Recovery): void {
    this.stream.recovery?.(requestId, event);
  }

  write({ requestId, event }: GenerateStreamResponse): void {
    if (event?.$case === 'complete') this.completions += 1;
    if (event === undefined || this.offset === 0) this.stream.write({ requestId, event });
    else {
      const index = event.value.index + this.offset;
      const value = { ...event.value, index };
      this.stream.write({ requestId, event: { ...event, value } as typeof event });
    }
  }

  end(): void {
    if (this.isLast) this.stream.end();
    this.settle(!this.isLast);
  }

  fail(error: RocmForgeError): void {
    this.stream.fail(error);
    this.settle(false);
  }
}
