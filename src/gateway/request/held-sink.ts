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
 * Holds back what a sink is told until it is released: while a generation's constraint may still be refused, nothing is written,
 * so that its client gets an error and no stream.
 */
export class HeldSink implements GenerationSink {
  /** Undefined once it is released. */
  private events: (() => void)[] | undefined = [];

  constructor(private readonly sink: GenerationSink) {}

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
    this.tell(() => this.sink.chunk(index, tokenIds, text, logprobs, beside));
  }

  progress(progress: PromptProgress): void {
    this.tell(() => this.sink.progress(progress));
  }

  recovery(event: Recovery): void {
    this.tell(() => this.sink.recovery?.(event));
  }

  prompt(logprobs: readonly PromptProbability[]): void {
    this.tell(() => this.sink.prompt(logprobs));
  }

  complete(index: number, finish: Finish, counts: CompletionCounts): void {
    this.tell(() => this.sink.complete(index, finish, counts));
  }

  error(error: RocmForgeError): void {
    this.tell(() => this.sink.error(error));
  }

  private tell(event: () => void): void {
    if (this.events === undefined) event();
    else this.events.push(event);
  }
}
