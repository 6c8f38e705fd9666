import { asRocmForgeError } from '../../shared/errors.js';
import type { GenerateChunk, GenerateComplete, TokenLogprobs } from '../../shared/generated/rocmforge/v1/inference.js';
import { type AnswerParts, addDelta } from '../request/answer.js';
import type { PromptProgress, Recovery } from '../request/generation.js';
import type { FlushScheduler, FlushTarget } from './flush-scheduler.js';
import type { ResponseStream } from './response-stream.js';

export interface StreamWriterOptions {
  readonly requestId: string;
  /** Tokens held back above which the reader counts as slow; each log probability counts as one, too. */
  readonly maxHeldTokens: number;
  /** Tokens of a completion that are written together; default 1. */
  readonly streamInterval?: number;
  /** When streams are written; all of a server's share them. */
  readonly rounds: FlushScheduler;
  /** The reader has become slow, or has caught up again. */
  onSlow(slow: boolean): void;
  /** Something could not be written: nobody need compute more. The writer ends the stream. */
  onBroken(): void;
}

/**
 * Writes one generation's stream. A token is written as soon as the event loop has handled what arrived with it; while
 * the loop or the stream's socket is behind, or until `streamInterval` of a completion have come, tokens are joined into
 * one chunk. The first one of a stream never waits, and neither does what ends a completion.
 */
export class StreamWriter implements FlushTarget {
  /** Chunks by completion: an array, as a map that is filled and cleared for each token costs more than a search. */
  private held: GenerateChunk[] = [];
  private heldTokens = 0;
  private completes: GenerateComplete[] = [];
  private ended = false;
  /** Nothing more goes to the stream. */
  private isOver = false;
  private draining = false;
  private slow = false;
  private hasWritten = false;

  constructor(
    private readonly stream: ResponseStream,
    private readonly options: StreamWriterOptions,
  ) {}

  /** @param beside reasoning and calls, where there are any */
  chunk(
    index: number,
    tokenIds: readonly number[],
    text: string,
    logprobs: readonly TokenLogprobs[],
    beside?: AnswerParts | undefined,
  ): void {
    const chunk = this.heldChunk(index, tokenIds);
    if (beside !== undefined) {
      chunk.reasoning += beside.reasoning;
      for (const delta of beside.toolCalls) addDelta(chunk.toolCalls, delta);
    }
    chunk.text += text;
    this.heldTokens += tokenIds.length;
    for (const logprob of logprobs) {
      chunk.logprobs.push(logprob);
      this.heldTokens += logprob.top.length;
    }
    if (!this.hasWritten || chunk.tokenIds.length >= (this.options.streamInterval ?? 1)) this.schedule();
  }

  /** Tells of the prompt, before anything is held; nothing to a reader that is behind already. */
  progress(progress: PromptProgress): void {
    if (!this.isOver && !this.stream.writableNeedDrain) this.stream.progress?.(this.options.requestId, progress);
  }

  /**
   * Reports a recovery at its place in the text: what came before is written first, whether the reader is behind or not. An
   * executor is lost too rarely for that to be a cost.
   */
  recovery(event: Recovery): void {
    if (this.isOver || this.stream.recovery === undefined) return;
    this.writeHeld();
    this.stream.recovery(this.options.requestId, event);
  }

  /** Log probabilities of the prompt, for the first chunk of completion 0. */
  prompt(logprobs: readonly TokenLogprobs[]): void {
    const { promptLogprobs } = this.heldChunk(0);
    // One by one: those of a long prompt are more than a call takes as arguments.
    for (const logprob of logprobs) promptLogprobs.push(logprob);
    this.schedule();
  }

  complete(message: GenerateComplete): void {
    this.completes.push(message);
    this.schedule();
  }

  /** Ends the stream when all that came before is written. */
  end(): void {
    this.ended = true;
    this.schedule();
  }

  /** Writes what is held, behind or not, and ends the stream with an error. */
  fail(error: unknown): void {
    if (this.isOver) return;
    try {
      this.writeHeld();
    } finally {
      this.isOver = true;
      this.stream.fail(asRocmForgeError(error));
    }
  }

  /** Ends the stream with an error and without what is held, of which something cannot be written. */
  abandon(error: unknown): void {
    if (this.isOver) return;
    this.isOver = true;
    this.options.onBroken();
    this.stream.fail(asRocmForgeError(error));
  }

  /** Writes what is held, unless the socket is behind: then when it has drained. */
  flush(): void {
    if (this.draining || this.isOver) return;
    if (this.stream.writableNeedDrain) {
      this.draining = true;
      this.stream.onceDrained(() => {
        this.draining = false;
        this.options.rounds.flush(this);
      });
      this.setBackpressure(this.heldTokens > this.options.maxHeldTokens);
      return;
    }
    this.writeHeld();
    this.setBackpressure(false);
    if (!this.ended) return;
    this.isOver = true;
    this.stream.end();
  }

  private writeHeld(): void {
    const { requestId } = this.options;
    const { held } = this;
    this.held = [];
    this.hasWritten ||= held.length > 0;
    for (const chunk of held) this.stream.write({ requestId, event: { $case: 'chunk', value: chunk } });
    this.heldTokens = 0;
    for (const complete of this.completes) {
      this.stream.write({ requestId, event: { $case: 'complete', value: complete } });
    }
    this.completes = [];
  }

  /** The chunk of a completion, with more tokens. */
  private heldChunk(index: number, tokenIds: readonly number[] = []): GenerateChunk {
    for (const chunk of this.held) {
      if (chunk.index !== index) continue;
      chunk.tokenIds.push(...tokenIds);
      return chunk;
    }
    // A copy is as long as its tokens; an array that grows has room for 17.
    const chunk: GenerateChunk = {
      index,
      tokenIds: [...tokenIds],
      text: '',
      logprobs: [],
      promptLogprobs: [],
      reasoning: '',
      toolCalls: [],
    };
    if (this.held.length === 0) this.held = [chunk];
    else this.held.push(chunk);
    return chunk;
  }

  private schedule(): void {
    if (this.draining) {
      this.setBackpressure(this.heldTokens > this.options.maxHeldTokens);
      return;
    }
    this.options.rounds.add(this, !this.hasWritten || this.completes.length > 0 || this.ended);
  }

  private setBackpressure(slow: boolean): void {
    if (slow === this.slow) return;
    this.slow = slow;
    this.options.onSlow(slow);
  }
}
