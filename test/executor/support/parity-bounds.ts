/**
 * Accepted |difference| from llama.cpp's log probabilities, mean and largest over all steps, by parity file: what its own
 * activation quantization plus ours amount to. An exact forward with 32-wide int8 activations was measured at
 * 0.071 / 0.36, 0.030 / 0.17 and 0.026 / 0.10.
 */
export const BOUNDS = {
  'tiny-llama-q4_k_m': { model: 'tiny-llama-q4_k_m', mean: 0.09, max: 0.45 },
  'tiny-qwen2-q8_0': { model: 'tiny-qwen2-q8_0', mean: 0.045, max: 0.25 },
  'tiny-llama3-q8_0-long': { model: 'tiny-llama3-q8_0', mean: 0.04, max: 0.15 },
} as const;
