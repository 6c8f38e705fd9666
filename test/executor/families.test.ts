import { describe, expect, it } from 'vitest';
import { type ParityCase, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { llamaCases as allCases, isFloat64Only, isTabled } from '../support/family-answers.js';
import { type Float64Options, float64Forward } from '../support/float64-forward.js';
import {
  COVERING_FAMILIES,
  RANDOM_ALIAS_NAMES,
  RANDOM_FAMILY_NAMES,
  type RandomFamilyName,
} from '../support/random-families.js';
import { writeRandomFamily } from '../support/random-model.js';
import { firstOf, isFull, isQuick } from '../support/run-size.js';

// f32 weights and an f32 cache; what differs is the order of sums.
const BOUND = 1e-5;

/** The same texts with the log probabilities that double precision gives. */
function float64Cases(file: string, cases: readonly ParityCase[], options: Float64Options = {}): ParityCase[] {
  return cases.map((one) => {
    const logits = float64Forward(file, [...one.prompt_tokens, ...one.tokens], options);
    const top = one.top.map((reference, step) => {
      const row = logits[one.prompt_tokens.length - 1 + step]!;
      const largest = row.reduce((a, b) => Math.max(a, b));
      const logSum = largest + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
      return reference!.map(([id]) => [id, row[id]! - logSum] as const);
    });
    return { ...one, top };
  });
}

/** For each step the largest difference of the log probabilities that two references give the same tokens, in order. */
function differences(a: readonly ParityCase[], b: readonly ParityCase[]): number[] {
  const steps = a.flatMap(({ top }, i) =>
    top.map((five, step) =>
      Math.max(...five!.map(([, logprob], rank) => Math.abs(logprob - b[i]!.top[step]![rank]![1]))),
    ),
  );
  return steps.sort((left, right) => left - right);
}

const all = [...RANDOM_FAMILY_NAMES, ...RANDOM_ALIAS_NAMES];

/**
 * Distance of llama.cpp from double precision where it exceeds {@link BOUND}: by its table; of qwen2vl it leaves out the norms'
 * epsilon.
 */
const APPROXIMATED: Partial<Record<RandomFamilyName, number>> = {
  ...Object.fromEntries(all.filter(isTabled).map((family) => [family, 1e-3])),
  qwen2vl: 1e-4,
};

/** Two of four texts; all of them in the full tier. */
const llamaCases = (family: Parameters<typeof allCases>[0]): readonly ParityCase[] => firstOf(2, allCases(family));

const families = isQuick ? COVERING_FAMILIES : all;

describe('double precision gives llama.cpp’s log probabilities', () => {
  it.each(isFull ? all.filter((family) => !isFloat64Only(family)) : (['llama', 'gptneox'] as const))('%s', (family) => {
    const cases = llamaCases(family);
    const options = { geluTable: isTabled(family) };
    const difference = differences(float64Cases(writeRandomFamily(family), cases, options), cases).at(-1)!;
    console.log(`${family}: float64 and llama.cpp differ by ${difference.toExponential(1)}`);
    expect(difference).toBeLessThanOrEqual(APPROXIMATED[family] ?? BOUND);
  });

  it('gemma of one layer, where no gate decides about another: but for the table there is no difference', () => {
    const file = writeRandomFamily('gemma', { layers: 1 });
    const cases = allCases('gemma-1-layer');
    const [withTable, without] = [true, false].map((geluTable) =>
      differences(float64Cases(file, cases, { geluTable }), cases),
    );
    const within = (list: readonly number[]) => list.filter((difference) => difference <= BOUND).length;
    console.log(
      `steps within ${BOUND} of 256: ${within(withTable!)} with llama.cpp’s table, ${within(without!)} without`,
    );
    expect(within(withTable!)).toBeGreaterThanOrEqual(240);
    expect(within(without!)).toBeLessThanOrEqual(64);
  });
});

describe('a random model of each family, fed llama.cpp’s tokens, gives its log probabilities', () => {
  it.each(families)('%s', async (family) => {
    const file = writeRandomFamily(family);
    const isLlama = !(family in APPROXIMATED || isFloat64Only(family));
    const cases = isLlama ? llamaCases(family) : float64Cases(file, llamaCases(family));
    const deviation = await teacherForced(file, cases);
    console.log(`${family}: mean ${deviation.mean.toExponential(1)}, largest ${deviation.max.toExponential(1)}`);
    expect(deviation.steps).toBe(cases.length * 64);
    expect(deviation.max).toBeLessThanOrEqual(BOUND);
  });

  it('gemma3 with a window that no context outgrows: its layers are rotated as windowed ones are', async () => {
    const file = writeRandomFamily('gemma3', { metadata: { 'gemma3.attention.sliding_window': 600 } });
    const cases = float64Cases(file, llamaCases('gemma3'));
    expect((await teacherForced(file, cases)).max).toBeLessThanOrEqual(BOUND);
  });

  it('phi3 with a window, which llama.cpp leaves out', async () => {
    const file = writeRandomFamily('phi3', { metadata: { 'phi3.attention.sliding_window': 40 } });
    const cases = float64Cases(file, llamaCases('phi3'), { phi3Window: true });
    expect((await teacherForced(file, cases)).max).toBeLessThanOrEqual(BOUND);
    expect((await teacherForced(file, float64Cases(file, llamaCases('phi3')))).max).toBeGreaterThan(100 * BOUND);
  });
});
