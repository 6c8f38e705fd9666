import { ExecutorLoop } from '../bench/executor-loop.js';
import { tokenRate } from '../bench/rates.js';
import type { ModelOptionValues } from '../common/options.js';
import type { Verdict } from './verdict.js';

const [PROMPT_TOKENS, TOKENS, REPEATS] = [32, 64, 3];

type Options = Pick<ModelOptionValues, 'device' | 'gpu' | 'threads' | 'kernels' | 'attention' | 'kvCacheType'>;

/**
 * Tokens a second of one sequence, and the bytes of weights that they read as a share of what a kernel that only reads reached in
 * turn with it. No share is demanded: of a small model launches are what takes time.
 *
 * @param file of the model
 */
export async function speed(file: string, model: string, { device: kind, ...options }: Options): Promise<Verdict> {
  const loop = await ExecutorLoop.open(file, PROMPT_TOKENS + TOKENS + 1, { kind, ...options });
  const prompt = Array.from({ length: PROMPT_TOKENS }, (_, i) => i + 1);
  await loop.run(prompt, 4);
  let [tokensPerSecond, read] = [0, 0];
  for (let i = 0; i < REPEATS; i++) {
    read = Math.max(read, await loop.readBandwidth());
    const { tokenMs } = await loop.run(prompt, TOKENS);
    tokensPerSecond = Math.max(tokensPerSecond, tokenRate(tokenMs));
  }
  const bytes = tokensPerSecond * loop.weightBytes;
  loop.model.release();
  return {
    model,
    check: 'speed of one sequence',
    measured: `${tokensPerSecond.toFixed(1)} tokens/s, ${(bytes / 1e9).toFixed(2)} GB/s of weights: ${((100 * bytes) / read).toFixed(1)} % of a read kernel’s ${(read / 1e9).toFixed(2)} GB/s`,
    passed: Number.isFinite(bytes / read) && bytes > 0,
  };
}
