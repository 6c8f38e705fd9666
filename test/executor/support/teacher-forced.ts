import { readFileSync } from 'node:fs';
import { type DeviceOptions, openDevice } from '../../../src/executor/device/open-device.js';
import { loadModel } from '../../../src/executor/model/loaded-model.js';
import { blocksFor } from '../../../src/executor/model/slot-layout.js';
import { Driver } from './driver.js';

/** What llama.cpp answered to one prompt: a token a step, and its five likeliest where the token was not forced. */
export interface ParityCase {
  readonly prompt: string;
  readonly prompt_tokens: readonly number[];
  readonly tokens: readonly number[];
  readonly top: readonly (readonly (readonly [id: number, logprob: number])[] | null)[];
}

export function readParityCases(path: string): readonly ParityCase[] {
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: ParityCase[] }).cases;
}

/** How far the log probabilities of the reference's five likeliest tokens are from its own. */
export interface Deviation {
  readonly mean: number;
  readonly max: number;
  /** Steps compared, and those of them whose likeliest token is the reference's. */
  readonly steps: number;
  readonly sameToken: number;
}

/** Feeds each case the reference's tokens, all cases side by side, and compares every step's log probabilities. */
export async function teacherForced(
  path: string,
  cases: readonly ParityCase[],
  options: Partial<DeviceOptions> & { readonly kvCacheType?: 'f32' | 'f16' } = {},
): Promise<Deviation> {
  const { kvCacheType = 'f32', ...deviceOptions } = options;
  const device = openDevice({ kind: 'host', ...deviceOptions });
  const sequences = cases.map(({ prompt_tokens, tokens }) => Uint32Array.from([...prompt_tokens, ...tokens]));
  const longest = Math.max(...sequences.map(({ length }) => length));
  const prompts = cases.reduce((sum, { prompt_tokens }) => sum + prompt_tokens.length, 0);
  const model = await loadModel(
    device,
    {
      path,
      kvCacheType,
      maxContext: 16 * blocksFor(longest),
      maxSequences: cases.length,
      maxStepTokens: prompts,
      kvMemoryBytes: 0,
      fingerprint: '',
    },
    () => undefined,
  );
  const driver = new Driver(device, model, 1n);
  let [sum, count, max, steps, sameToken] = [0, 0, 0, 0, 0];
  for (let step = 0; step < Math.max(...cases.map(({ tokens }) => tokens.length)); step++) {
    const running = cases.flatMap(({ tokens }, slot) => (step < tokens.length ? [slot] : []));
    const slices = running.map((slot) => {
      const length = cases[slot]!.prompt_tokens.length;
      return step === 0 ? ([slot, 0, length, true] as const) : ([slot, length + step - 1, 1, true] as const);
    });
    const logits = await driver.step(
      slices,
      step === 0 ? running.map((slot) => [slot, sequences[slot]!] as const) : [],
    );
    running.forEach((slot, i) => {
      const top = cases[slot]!.top[step];
      if (top === null || top === undefined) return;
      const row = logits[i]!;
      const largest = row.reduce((a, b) => Math.max(a, b));
      const logSum = largest + Math.log(row.reduce((total, logit) => total + Math.exp(logit - largest), 0));
      steps += 1;
      if (row.indexOf(largest) === cases[slot]!.tokens[step]) sameToken += 1;
      for (const [id, logprob] of top) {
        const difference = Math.abs(row[id]! - logSum - logprob);
        sum += difference;
        count += 1;
        // Math.max keeps a NaN, which then fails every bound; a comparison would lose it.
        max = Math.max(max, difference);
      }
    });
  }
  return { mean: sum / count, max, steps, sameToken };
}
