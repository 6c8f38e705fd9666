import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import { asRocmForgeError } from '../../shared/errors.js';
import type { Logger } from '../../shared/log.js';
import type { Limiter, Usage } from '../trust/limiter.js';
import type { LimitName } from '../trust/limits.js';
import { leftAs, logFields, type RequestContext } from './context.js';
import { type CompletionCounts, Generation, type GenerationParameters, type GenerationSink } from './generation.js';
import { closeAll } from './opened-constraints.js';

/** Reason why a generation is paused: a slow reader, or its principal's limit of tokens a minute. */
export type PausedBy = 'reader' | 'limit';

/** Executor of generations. */
export interface Backend {
  /**
   * Queues a generation. Its sink hears of it from now on.
   *
   * @throws RocmForgeError `QUEUE_FULL`, `PROMPT_TOO_LONG`, or why nothing is served at all
   */
  submit(generation: Generation): void;
  /** True if the queue has room for a further prompt, with `n` completions, of a request of this client that has begun. */
  hasRoomForMore(principal: string, n: number): boolean;
  /** Ends a generation nobody listens to any more. */
  cancel(generation: Generation): void;
  /** Stops computing for a generation, or resumes it where nothing holds it up. */
  pause(generation: Generation, by: PausedBy | undefined): void;
  /** Ends a generation whose time is over: what it has is its answer. */
  expire(generation: Generation): void;
}

/** Counters of requests. */
export interface RequestObserver {
  requestStarted(promptTokens: number): void;
  firstToken(seconds: number): void;
  tokens(count: number, secondsSinceLast: number | undefined): void;
  completionEnded(counts: CompletionCounts): void;
  /** @param outcome finish reason, error reason or `cancelled` */
  /** @param seconds from its arrival; undefined for a request that had no slot */
  requestEnded(outcome: string, seconds: number | undefined): void;
}

/** A request under way, for whoever hands its answer on. */
export interface RunningRequest {
  /** True if every completion has ended. */
  readonly done: boolean;
  /** The reader does not keep up, or does again. */
  pause(paused: boolean): void;
}

/** Runs requests, from any API. */
export class RequestRunner {
  /** @param audit gets one line a generation, at its end: who, how much and how it ended, never what was said */
  constructor(
    private readonly model: string,
    private readonly tokenizer: Tokenizer,
    private readonly backend: Backend,
    private readonly observer: RequestObserver,
    private readonly limiter: Pick<Limiter, 'begin' | 'countRefusal' | 'freeStreams'>,
    private readonly audit: Logger,
  ) {}

  /**
   * Starts a request.
   *
   * @param sink told what comes, not before this returns
   * @param signal aborted when nobody waits for the answer any more; after its end that changes nothing
   * @throws RocmForgeError `RATE_LIMITED`, or as {@link Backend.submit}
   */
  run(
    parameters: GenerationParameters,
    sink: GenerationSink,
    signal: AbortSignal,
    context: RequestContext,
  ): RunningRequest {
    const { backend, observer, limiter } = this;
    const { arrivedAt } = context;
    const { timeLimitMs, promptIds, opened, isPromptOnly = false } = parameters;
    let timer: NodeJS.Timeout | undefined;
    let tokens = 0;
    let firstTokenMs: number | undefined;
    let queuedMs: number | undefined;
    let lastTokenAt = 0;
    let isPausedByReader = false;
    const recoveries: number[] = [];
    let limitTimer: NodeJS.Timeout | undefined;
    const usage = this.reserve(parameters, context);
    let isPromptSpent = false;
    let hadSlot = false;
    /** Takes the prompt's tokens of the client's limit: from its first slot on it is computed, even if its constraint is refused. */
    const spendPrompt = (): void => {
      if (!isPromptSpent) usage.spend(promptIds.length);
      isPromptSpent = true;
    };
    const end = (outcome: string, isError = false): void => {
      clearTimeout(timer);
      clearTimeout(limitTimer);
      signal.removeEventListener('abort', cancel);
      usage.end();
      const now = performance.now();
      context.spans?.end(outcome, tokens, isError);
      observer.requestEnded(outcome, hadSlot ? (now - arrivedAt) / 1000 : undefined);
      this.tell(context, {
        ...{ outcome, promptTokens: promptIds.length, completionTokens: tokens },
        ...(queuedMs !== undefined && { queuedMs }),
        ...(firstTokenMs !== undefined && { firstTokenMs }),
        durationMs: Math.round(now - arrivedAt),
        ...(recoveries.length > 0 && { recoveryMs: recoveries }),
        ...(Number.isFinite(context.deadline) && { leftMs: Math.round(context.deadline - now) }),
      });
    };
    const generation = new Generation(parameters, context, this.tokenizer, {
      chunk: (index, tokenIds, text, logprobs, beside) => {
        hadSlot = true;
        holdFor(usage.spend(tokenIds.length));
        if (isPromptOnly) return sink.chunk(index, tokenIds, text, logprobs, beside);
        const now = performance.now();
        context.spans?.token(index, tokens === 0);
        if (tokens === 0) {
          firstTokenMs = Math.round(now - arrivedAt);
          observer.firstToken((now - arrivedAt) / 1000);
        }
        observer.tokens(tokenIds.length, tokens === 0 ? undefined : (now - lastTokenAt) / 1000);
        lastTokenAt = now;
        tokens += tokenIds.length;
        sink.chunk(index, tokenIds, text, logprobs, beside);
      },
      progress: (progress) => {
        hadSlot = true;
        spendPrompt();
        sink.progress(progress);
      },
      recovery: (event) => {
        if (event.state === 'resumed') recoveries.push(Math.round(event.ms));
        sink.recovery?.(event);
      },
      pooled: (values) => sink.pooled?.(values),
      hiddenStates: (position, states) => sink.hiddenStates?.(position, states),
      prompt: (logprobs) => sink.prompt(logprobs),
      complete: (index, finish, counts) => {
        queuedMs = Math.max(queuedMs ?? 0, Math.round(counts.queuedUs / 1000));
        observer.completionEnded(isPromptOnly ? { ...counts, completionTokens: 0 } : counts);
        if (generation.done) end(finish.reason);
        sink.complete(index, finish, counts);
      },
      error: (error) => {
        end(error.reason, true);
        sink.error(error);
      },
    });
    /** Pauses the generation until its principal's tokens suffice again. */
    const holdFor = (waitMs: number): void => {
      if (waitMs === 0 || limitTimer !== undefined || generation.done) return;
      backend.pause(generation, 'limit');
      limitTimer = setTimeout(() => {
        limitTimer = undefined;
        const stillMs = usage.waitMs();
        if (stillMs > 0) holdFor(stillMs);
        else backend.pause(generation, isPausedByReader ? 'reader' : undefined);
      }, waitMs);
    };
    const cancel = (): void => {
      if (generation.done) return;
      backend.cancel(generation);
      end(leftAs(context));
    };
    try {
      backend.submit(generation);
    } catch (error) {
      const { reason, metadata } = asRocmForgeError(error);
      if (reason === 'RATE_LIMITED') limiter.countRefusal(metadata.limit as LimitName);
      end(reason, true);
      generation.abandon();
      throw error;
    }
    /** Counts the prompt, unless the request is refused or its client leaves before its constraint is known to be allowed. */
    const started = (): void => {
      if (generation.done && opened !== undefined) return;
      observer.requestStarted(promptIds.length);
      spendPrompt();
      holdFor(usage.waitMs());
    };
    if (opened === undefined) started();
    else void opened.then(started, () => undefined);
    if (timeLimitMs > 0) timer = setTimeout(() => backend.expire(generation), timeLimitMs);
    if (signal.aborted) cancel();
    else signal.addEventListener('abort', cancel, { once: true });
    return {
      get done() {
        return generation.done;
      },
      pause: (paused) => {
        isPausedByReader = paused;
        if (limitTimer === undefined) backend.pause(generation, paused ? 'reader' : undefined);
      },
    };
  }

  /** Counts a generation for its client's limits. */
  private reserve(parameters: GenerationParameters, { principal }: RequestContext): Usage {
    const { promptIds, n, stop } = parameters;
    try {
      return this.limiter.begin(principal, promptIds.length, n * stop.maxTokens, n);
    } catch (error) {
      closeAll(parameters);
      throw error;
    }
  }

  /**
   * True if a further prompt of a request that has begun, with `n` completions, may begin now: within the client's limits, and without
   * filling the queue.
   */
  hasRoomForMore({ principal }: Pick<RequestContext, 'principal'>, n: number): boolean {
    return this.limiter.freeStreams(principal) >= n && this.backend.hasRoomForMore(principal, n);
  }

  /** Counts and logs a request that is not run: its client has gone while its prompt was encoded or its grammar compiled, or it has no grammar. */
  notRun({ promptIds }: Pick<GenerationParameters, 'promptIds'>, context: RequestContext, outcome: string): void {
    this.observer.requestEnded(outcome, undefined);
    this.tell(context, { outcome, promptTokens: promptIds.length, completionTokens: 0 });
  }

  private tell(context: RequestContext, end: Readonly<Record<string, string | number | readonly number[]>>): void {
    this.audit.info({ ...logFields(context), model: this.model, ...end }, 'generation ended');
  }
}
