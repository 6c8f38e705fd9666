import type { GenerationParameters } from '../../src/gateway/request/generation.js';
import { GREEDY } from '../../src/gateway/request/sequence.js';
import { StopStrings } from '../../src/lib/tokenizer/stop-matcher.js';

/** One greedy completion of as many tokens, whatever they are. */
export function greedyParameters(promptIds: Uint32Array, maxTokens: number): GenerationParameters {
  return {
    promptIds,
    sampling: GREEDY,
    stop: {
      strings: new StopStrings([]),
      tokenIds: new Set(),
      includeStopString: false,
      ignoreEos: true,
      maxTokens,
      minTokens: 0,
      includeSpecialTokens: false,
    },
    n: 1,
    priority: 0,
    timeLimitMs: 0,
    promptText: undefined,
  };
}
