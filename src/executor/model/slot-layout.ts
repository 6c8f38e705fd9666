import { KV_BLOCK_TOKENS } from '../kernels/contracts/index.js';

/** Words of a slot on the device; the numbers of `enum SlotWord` in `kernels/forge/slot.h`. */
export const SlotWord = {
  LAST_TOKEN: 0,
  TEMPERATURE: 1,
  TOP_K: 2,
  TOP_P: 3,
  MIN_P: 4,
  SEED_LOW: 5,
  SEED_HIGH: 6,
  SAMPLE_INDEX: 7,
  LOGPROBS: 8,
  REPETITION: 9,
  FREQUENCY: 10,
  PRESENCE: 11,
  BLOCK_TABLE: 16,
} as const;

/** Blocks that hold `tokens` tokens. */
export function blocksFor(tokens: number): number {
  return Math.ceil(tokens / KV_BLOCK_TOKENS);
}

/** Words of a slot whose sequence may grow to `maxContext` tokens. */
export function slotWords(maxContext: number): number {
  return SlotWord.BLOCK_TABLE + blocksFor(maxContext);
}
