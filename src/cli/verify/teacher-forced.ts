import { readFileSync } from 'node:fs';
import type { LoadOptions } from '../../executor/load/load-options.js';
import { loadModel } from '../../executor/load/loaded-model.js';
import { type DeviceOptions, openDevice } from '../../executor/load/open-device.js';
import { blocksFor } from '../../executor/model/slot-layout.js';
import { type Slice, StepDriver } from './step-driver.js';

/** Answers of llama.cpp to one prompt: a token a step, and its five likeliest where the token was not forced. */
export interface ParityCase {
  readonly prompt: string;
  readonly prompt_tokens: readonly number[];
  readonly tokens: readonly number[];
  readonly top: readonly (readonly (readonly [id: number, logprob: number])[] | null)[];
}

export function readParityCases(path: string): readonly ParityCase[] {
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: ParityCase[] }).cases;
}

/** Distances of the log probabilities of the reference's five likeliest tokens from its own. */
export interface Deviation {
  readonly mean: number;
  readonly max: number;
  /** Steps compared, and those of them whose likeliest token is the reference's. */
  readonly steps: number;
  readonly sameToken: number;
  /** Steps whose likeliest token is another, which the reference has so near its own that accepted differences explain it. */
  readonly ties: number;
}

/**
 * Accepted difference in log probabilities, in the mean and at most. Engines round activations of quantized weights
 * each in its own way: tests hold the files at hand to 0.09 and 0.45, a q8_0 cache to 0.061 and 0.37.
 */
export const ACCEPTED = { mean: 0.1, max: 0.5 } as const;

/** The executor with a model loaded that holds all cases at once. */
async function open(
  path: string,
  cases: readonly ParityCase[],
  { kvCacheType = 'f32', attention, ...deviceOptions }: VerifyOptions,
): Promise<StepDriver> {
  const device = openDevice({ kind: 'host', ...deviceOptions });
  const lengths = cases.map(({ prompt_tokens, tokens }) => prompt_tokens.length + tokens.length);
  const model = await loadModel(
    device,
    {
      path,
      kvCacheType,
      maxContext: 16 * blocksFor(Math.max(...lengths)),
      maxSequences: cases.length,
      maxStepTokens: cases.reduce((sum, { prompt_tokens }) => sum + prompt_tokens.length, 0),
      kvMemoryBytes: 0,
      stateSnapshots: 0,
      fingerprint: '',
      attention,
    },
    () => undefined,
  );
  return new StepDriver(device, model, 1n);
}

/** Default: an f32 KV cache. */
export type VerifyOptions = Partial<DeviceOptions & Pick<LoadOptions, 'kvCacheType' | 'attention'>>;

/** The slices of step number `step`: each case's prompt, then a token at a time; and the cases that still run. */
function stepOf(cases: readonly ParityCase[], step: number): { running: number[]; slices: Slice[] } {
  const running = cases.flatMap(({ tokens }, slot) => (step < tokens.length ? [slot] : []));
  const slices = running.map((slot): Slice => {
    const length = cases[slot]!.prompt_tokens.length;
    return step === 0 ? [slot, 0, length, true] : [slot, length + step - 1, 1, true];
  });
  return { running, slices };
}

const stepsOf = (cases: readonly ParityCase[]) => Math.max(...cases.map(({ tokens }) => tokens.length));

/** The column of the largest logit. */
function likeliest(row: Float32Array): number {
  return row.indexOf(row.reduce((a, b) => Math.max(a, b)));
}

/** Distances of the log probabilities of one row of logits from a reference's of these tokens. */
export function differences(row: Float32Array, top: readonly (readonly [id: number, logprob: number])[]): number[] {
  const largest = row.reduce((a, b) => Math.max(a, b));
  const logSum = largest + Math.log(row.reduce((total, logit) => total + Math.exp(logit - largest), 0));
  return top.map(([id, logprob]) => Math.abs(row[id]! - logSum - logprob));
}

/** True if the reference's log probabilities of two tokens are so near each other that accepted differences turn them around. */
function areTied(top: readonly (readonly [id: number, logprob: number])[], one: number, other: number): boolean {
  const [a, b] = [one, other].map((id) => top.find(([candidate]) => candidate === id)?.[1]);
  return a !== undefined && b !== undefined && Math.abs(a - b) <= 2 * ACCEPTED.max;
}

/** Feeds each case the reference's tokens, all cases side by side, and compares every step's log probabilities. */
export async function teacherForced(
  path: string,
  cases: readonly ParityCase[],
  options: VerifyOptions = {},
): Promise<Deviation> {
  const driver = await open(path, cases, options);
  const sequences = cases.map(({ prompt_tokens, tokens }) => Uint32Array.from([...prompt_tokens, ...tokens]));
  let [sum, count, max, steps, sameToken, ties] = [0, 0, 0, 0, 0, 0];
  for (let step = 0; step < stepsOf(cases); step++) {
    const { running, slices } = stepOf(cases, step);
    const logits = await driver.step(
      slices,
      step === 0 ? running.map((slot) => [slot, sequences[slot]!] as const) : [],
    );
    running.forEach((slot, i) => {
      const top = cases[slot]!.top[step];
      if (top === null || top === undefined) return;
      const row = logits[i]!;
      steps += 1;
      const found = likeliest(row);
      const token = cases[slot]!.tokens[step]!;
      if (found === token) sameToken += 1;
      else if (areTied(top, found, token)) ties += 1;
      for (const difference of differences(row, top)) {
        sum += difference;
        count += 1;
        // Math.max keeps a NaN, which then fails every bound; a comparison would lose it.
        max = Math.max(max, difference);
      }
    });
  }
  return { mean: sum / count, max, steps, sameToken, ties };
}

/** Lets each case generate, all side by side, each token from the one before. @returns tokens in all, and equal ones */
export async function greedy(
  path: string,
  cases: readonly ParityCase[],
  options: VerifyOptions = {},
): Promise<{ readonly tokens: number; readonly same: number }> {
  const driver = await open(path, cases, options);
  let [tokens, same] = [0, 0];
  for (let step = 0; step < stepsOf(cases); step++) {
    const { running, slices } = stepOf(cases, step);
    const opens = running.map((slot) => [slot, Uint32Array.from(cases[slot]!.prompt_tokens)] as const);
    const sampled = await driver.sample(slices, step === 0 ? opens : []);
    running.forEach((slot, i) => {
      tokens += 1;
      if (sampled[i] === cases[slot]!.tokens[step]) same += 1;
    });
  }
  return { tokens, same };
}
