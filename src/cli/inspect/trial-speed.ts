import type { Device } from '../../executor/device/device.js';
import type { FitQuestion, Grant } from '../../executor/load/fit.js';
import { loadForTrial } from '../../executor/load/trial-load.js';
import type { ModelPart } from '../../lib/gguf/model-files.js';
import { NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';
import { ExecutorLoop } from '../bench/executor-loop.js';
import { median, tokenRate } from '../bench/rates.js';

/** Tokens of the prompt, generated before time is taken, and generated in each of some runs. */
const TOKENS = { prompt: 16, warm: 32, timed: 64, runs: 3 };
/** Limits for one sequence, whose steps of one token are timed. */
const LIMITS = { maxContext: 256, maxSequences: 1, maxStepTokens: 64, kvMemoryBytes: 0, stateSnapshots: 0 };
/** Tokens differ, and so do the experts that they are sent to. */
const SAMPLING = { ...NEUTRAL_SAMPLING, temperature: 1 };

/**
 * Tokens a second of one sequence on a GPU, as the executor alone takes for its steps: the median of some runs of a model that is
 * loaded for them by `loadForTrial`.
 *
 * @param granted limits of the load
 * @returns undefined for an encoder
 * @throws RocmForgeError of the loader
 */
export async function trialSpeed(
  device: Device,
  parts: readonly ModelPart[],
  { model, kvCacheType }: Pick<FitQuestion, 'model' | 'kvCacheType'>,
  { cpuExperts }: Pick<Grant, 'cpuExperts'>,
  tokens = TOKENS,
): Promise<number | undefined> {
  const options = { path: model.name, kvCacheType, fingerprint: '', cpuExperts, ...LIMITS };
  const loaded = await loadForTrial(device, parts, model, options);
  try {
    if (loaded.forward.limits.isEncoder) return undefined;
    const loop = new ExecutorLoop(device, loaded, SAMPLING);
    const prompt = Array.from({ length: tokens.prompt }, (_, i) => i + 1);
    await loop.run(prompt, tokens.warm);
    const rates: number[] = [];
    for (let i = 0; i < tokens.runs; i++) {
      const { tokenMs } = await loop.run(prompt, tokens.timed);
      rates.push(tokenRate(tokenMs));
    }
    return median(rates);
  } finally {
    loaded.release();
  }
}
