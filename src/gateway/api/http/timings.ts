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
  /** Once it has ended, the longest of its completions, without their wait for slots. */
  readonly ms?: EngineTimes | undefined;
}

/** Times of a completion in the engine, in ms: until its first token, and from it on. */
export interface EngineTimes {
  readonly prompt: number;
  readonly predicted: number;
}

/** The longer ones of each. */
export function longerTimes(a: EngineTimes | undefined, b: EngineTimes | undefined): EngineTimes | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return { prompt: Math.max(a.prompt, b.prompt), predicted: Math.max(a.predicted, b.predicted) };
}

/** Those of a whole answer. */
export function countsOf(usage: Usage | undefined): TokenCounts {
  const { promptTokens = 0, cachedTokens = 0, completionTokens: tokens = 0 } = usage ?? {};
  const { proposedTokens: proposed = 0, acceptedTokens: accepted = 0 } = usage ?? {};
  const counts = { promptTokens, cachedTokens, tokens, reasoning: usage?.reasoningTokens ?? 0, proposed, accepted };
  if (usage === undefined) return counts;
  return { ...counts, ms: { prompt: Number(usage.prefillUs) / 1000, predicted: Number(usage.decodeUs) / 1000 } };
}

/** Progress of a prompt, as llama.cpp reports it. */
export function progressOf({ total, cached, processed }: PromptProgress, ms: number): Readonly<Record<string, number>> {
  return { total, cache: cached, processed, time_ms: Math.round(ms) };
}

/** Times of an answer: once it has ended the engine's, before as a server sees them; until the first token, and from it on. */
export class Timings {
  private readonly began = performance.now();
  private placedAt: number | undefined;
  private firstAt: number | undefined;

  /** The prompt is computed from now on, as far as that is told; else it counts from the request on. @returns ms since */
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
    { promptTokens, cachedTokens, tokens, proposed, accepted, ms }: TokenCounts,
    now = performance.now(),
  ): Readonly<Record<string, number>> {
    const promptMs = ms?.prompt ?? (this.firstAt ?? now) - (this.placedAt ?? this.began);
    const predictedMs = ms?.predicted ?? (this.firstAt === undefined ? 0 : now - this.firstAt);
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
