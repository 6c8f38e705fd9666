import type { CompletionCounts } from './generation.js';

/** Totals of all completions that have ended. */
export class CompletionTotals {
  /** Tokens of prompts that were computed, and those that were found computed. */
  promptTokens = 0;
  cachedTokens = 0;
  completionTokens = 0;
  /** From a slot until the first token, and from then until the end. */
  prefillUs = 0;
  decodeUs = 0;
  /** Tokens of prompt and completion of the longest. */
  mostTokens = 0;

  add({ promptTokens, cachedTokens, completionTokens, prefillUs, decodeUs }: CompletionCounts): void {
    this.promptTokens += promptTokens - cachedTokens;
    this.cachedTokens += cachedTokens;
    this.completionTokens += completionTokens;
    this.prefillUs += prefillUs;
    this.decodeUs += decodeUs;
    this.mostTokens = Math.max(this.mostTokens, promptTokens + completionTokens);
  }
}
