import type { Usage } from '../../../shared/generated/rocmforge/v1/inference.js';
import type { PromptProgress } from '../../request/generation.js';

/** Counts of a completion's tokens. */
export interface TokenCounts {
  readonly promptTokens: number;
  /** Cache hits among those. */
  readonly cachedTokens: number;
  readonly tokens: number;
  /** Tokens among those up to the last of the reasoning. */
  readonly reasoning: number;
  /** Draft tokens at them, and those that were right. */
  readonly proposed: number;
  readonly accepted: number;
  /** Time that it waited for a slot; absent while that is not told. */
  readonly queuedMs?: number;
}

/** Those of a whole answer. */
export function countsOf(usage: Usage | undefined): TokenCounts {
  const { promptTokens = 0, cachedTokens = 0, completionTokens: tokens = 0 } = usage ?? {};
  const { proposedTokens: proposed = 0, acceptedTokens: accepted = 0 } = usage ?? {};
  const counts = { promptTokens, cachedTokens, tokens, reasoning: usage?.reasoningTokens ?? 0, proposed, accepted };
  return usage === undefined ? counts : { ...counts, queuedMs: Number(usage.queuedUs) / 1000 };
}

/** Progress of a prompt, as llama.cpp reports it. */
export function progressOf({ total, cached, processed }: PromptProgress, ms: number): Readonly<Record<string, number>> {
  return { total, cache: cached, processed, time_ms: Math.round(ms) };
}

/** Times of an answer, as a server sees them: until the first token, and from it on. */
export class Timings {
  private readonly began = performance.now();
  private placedAt: number | undefined;
  private firstAt: number | undefined;

  /** The prompt is computed from now on, as far as that is told. @returns ms since */
  place(now: number): number {
    this.placedAt ??= now;
    return now - this.placedAt;
  }

  /** The first token has come. */
  begin(): void {
    this.firstAt ??= performance.now();
  }

  /** As llama.cpp tells them: times in ms, rates by the second. */
  told(
    { promptTokens, cachedTokens, tokens, proposed, accepted, queuedMs = 0 }: TokenCounts,
    now = performance.now(),
  ): Readonly<Record<string, number>> {
    const promptMs = Math.max(0, (this.firstAt ?? now) - (this.placedAt ?? this.began + queuedMs));
    const predictedMs = this.firstAt === undefined ? 0 : now - this.firstAt;
    const prompted = promptTokens - cachedTokens;
    const each = (count: number, ms: number) => (count === 0 ? 0 : ms / count);
    const rate = (count: number, ms: number) => (ms === 0 ? 0 : (1000 * count) / ms);
    return {
      cache_n: cachedTokens,
      prompt_n: prompted,
      prompt_ms: promptMs,
      prompt_per_token_ms: each(prompted, promptMs),
      prompt_per_second: rate(prompted, promptMs),
      predicted_n: tokens,
      predicted_ms: predictedMs,
      // The first token is the prompt's: no step was for it alone.
      predicted_per_token_ms: each(Math.max(tokens - 1, 0), predictedMs),
      predicted_per_second: tokens < 2 ? 0 : rate(tokens - 1, predictedMs),
      ...(proposed > 0 && { draft_n: proposed, draft_n_accepted: accepted }),
    };
  }
}
