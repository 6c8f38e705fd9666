import type { RocmForgeError } from '../../../shared/errors.js';
import type {
  GenerateChunk,
  GenerateComplete,
  GenerateStreamResponse,
} from '../../../shared/generated/rocmforge/v1/inference.js';
import type { ResponseStream } from '../response-stream.js';

/** Translator of a generation's messages to another protocol. */
export interface ProtocolResponse {
  /** Before all others. */
  begin(promptIds: Uint32Array): void;
  chunk(chunk: GenerateChunk): void;
  complete(complete: GenerateComplete): void;
  /** Its client has ended it by another call: whatever has not ended ends here. */
  aborted(): void;
}

/** A generation's stream that another protocol's client reads. */
export class TranslatedStream implements ResponseStream {
  private isOver = false;

  /**
   * @param reader where the other messages go
   * @param answer writes them there
   * @param inTheirTerms an error in the other protocol's words
   * @param over it has ended, whatever way
   */
  constructor(
    private readonly reader: Pick<ResponseStream<never>, 'writableNeedDrain' | 'onceDrained' | 'end' | 'fail'>,
    private readonly answer: ProtocolResponse,
    private readonly inTheirTerms: (error: RocmForgeError) => RocmForgeError,
    private readonly over: () => void,
  ) {}

  get writableNeedDrain(): boolean {
    return this.reader.writableNeedDrain;
  }

  onceDrained(tell: () => void): void {
    this.reader.onceDrained(tell);
  }

  begin(promptIds: Uint32Array): void {
    this.answer.begin(promptIds);
  }

  write({ event }: GenerateStreamResponse): void {
    if (this.isOver) return;
    if (event?.$case === 'chunk') this.answer.chunk(event.value);
    else if (event?.$case === 'complete') this.answer.complete(event.value);
  }

  end(): void {
    this.finish(() => this.reader.end());
  }

  fail(error: RocmForgeError): void {
    this.finish(() => this.reader.fail(this.inTheirTerms(error)));
  }

  /** Ends it as its client has asked by another call. */
  abort(): void {
    this.finish(() => {
      this.answer.aborted();
      this.reader.end();
    });
  }

  private finish(tell: () => void): void {
    if (this.isOver) return;
    this.isOver = true;
    this.over();
    tell();
  }
}
