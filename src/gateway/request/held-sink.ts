import type { RocmForgeError } from '../../shared/errors.js';
import type { AnswerParts } from './answer.js';
import type { Finish } from './completion.js';
import type {
  CompletionCounts,
  GenerationSink,
  PromptProbability,
  PromptProgress,
  Recovery,
  TokenProbability,
} from './generation.js';

/**
 * Holds back a generation's events until they are released: while its constraint may still be refused, nothing is written, so that its
 * client gets an error and no stream.
 */
export class HeldSink implements GenerationSink {
  /** Undefined once they are released. */
  private events: (() => void)[] | undefined = [];
  /** Its end, if that came before they are released. */
  private failure: RocmForgeError | undefined;

  constructor(private readonly sink: GenerationSink) {}

  /**
   * Waits until the constraint is known to be allowed.
   *
   * @returns whether there is a client to write to
   * @throws RocmForgeError why the generation has ended before
   */
  async until(opened: Promise<void>, signal: AbortSignal): Promise<boolean> {
    try {
      await opened;
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (signal.aborted) return false;
    if (this.failure !== undefined) throw this.failure;
    return true;
  }

  release(): void {
    const { events = [] } = this;
    this.events = undefined;
    for (const event of events) event();
  }

  chunk(
    index: number,
    tokenIds: readonly number[],
    text: string,
    logprobs: readonly TokenProbability[],
    beside: AnswerParts | undefined,
  ): void {
    this.hold(() => this.sink.chunk(index, tokenIds, text, logprobs, beside));
  }

  progress(progress: PromptProgress): void {
    this.hold(() => this.sink.progress(progress));
  }

  recovery(event: Recovery): void {
    this.hold(() => this.sink.recovery?.(event));
  }

  prompt(logprobs: readonly PromptProbability[]): void {
    this.hold(() => this.sink.prompt(logprobs));
  }

  complete(index: number, finish: Finish, counts: CompletionCounts): void {
    this.hold(() => this.sink.complete(index, finish, counts));
  }

  error(error: RocmForgeError): void {
    this.failure = error;
    this.hold(() => this.sink.error(error));
  }

  private hold(event: () => void): void {
    if (this.events === undefined) event();
    else this.events.push(event);
  }
}
