import { OUTPUT_NON_FINITE } from '../../../src/executor/kernels/index.js';
import { encodeSampling, NEUTRAL_SAMPLING, slotSamplingWords } from '../../../src/shared/sampling-schema.js';
import { gumbel, philox } from './philox.js';

/** Sampling parameters of a slot. */
export interface Sampling {
  readonly temperature: number;
  /** 0: all. */
  readonly topK: number;
  /** 1: all. */
  readonly typicalP: number;
  /** 1: all. */
  readonly topP: number;
  /** 0: all. */
  readonly minP: number;
  readonly seed: readonly [low: number, high: number];
  readonly sampleIndex: number;
}

/** True if there is a largest logit and it is finite: what is masked is -inf, and a NaN spoils its row. */
export function isDrawable(logits: ArrayLike<number>): boolean {
  const values = Array.from(logits);
  return !values.some(Number.isNaN) && Number.isFinite(values.reduce((a, b) => Math.max(a, b)));
}

/** A slot's words that say so. */
export function samplingWords(sampling: Sampling): Int32Array {
  const [low, high] = sampling.seed;
  const seed = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
  return slotSamplingWords(encodeSampling({ ...NEUTRAL_SAMPLING, ...sampling, seed }));
}

/** f32 rounding of scores and probabilities: within this of an edge the kernel may decide either way. */
const SLACK = 2e-5;

/** Ids by falling logit; equal logits: the lower id first. */
export function ranking(logits: ArrayLike<number>): number[] {
  return Array.from(logits, (_, i) => i).sort((a, b) => logits[b]! - logits[a]! || a - b);
}

/** True if each id survives a filter: `undefined` within rounding of the filter's edge. */
export type Kept = (boolean | undefined)[];

/** The least and the most that a sum may be, as rounding decides who is in it. */
type Band = readonly [least: number, most: number];

/**
 * Locally typical sampling of `first`, as Meister et al. (2023) define it: those whose -log p is nearest to the entropy, up
 * to and with the one that brings their mass above a share `typicalP`.
 *
 * @returns by id; logits that are equal are equally typical, and the lower id goes first
 */
function typical(logits: ArrayLike<number>, first: readonly number[], { temperature, typicalP }: Sampling): Kept {
  const kept: Kept = new Array(logits.length).fill(false);
  const largest = logits[first[0]!]!;
  const mass = first.map((id) => Math.exp((logits[id]! - largest) / temperature));
  const total = mass.reduce((sum, p) => sum + p, 0);
  const surprise = mass.map((p) => -Math.log(p / total));
  const entropy = mass.reduce((sum, p, i) => (p === 0 ? sum : sum + (p / total) * surprise[i]!), 0);
  const entries = first.map((id, i) => {
    const distance = Math.abs(surprise[i]! - entropy);
    // Both are rounded, after the likeliest's surprise was taken off.
    const slack = SLACK * (1 + (largest - logits[id]!) / temperature + Math.abs(entropy));
    return { id, p: mass[i]! / total, distance, slack, logit: logits[id]! };
  });
  // The mass of those whose bound is below a value, or at it.
  const massUpTo = (bound: (entry: (typeof entries)[number]) => number) => {
    const sorted = entries.map((entry) => [bound(entry), entry.p] as const).sort(([a], [b]) => a - b);
    let sum = 0;
    const sums = sorted.map(([, p]) => {
      sum += p;
      return sum;
    });
    return (value: number, isIn: (bound: number) => boolean) => {
      let [low, high] = [0, sorted.length];
      while (low < high) {
        const middle = (low + high) >> 1;
        if (isIn(sorted[middle]![0] - value)) low = middle + 1;
        else high = middle;
      }
      return sums[low - 1] ?? 0;
    };
  };
  const certainlyBelow = massUpTo(({ distance, slack }) => distance + slack);
  const maybeBelow = massUpTo(({ distance, slack }) => distance - slack);
  const tied = new Map<number, (typeof entries)[number][]>();
  for (const entry of entries) tied.set(entry.logit, [...(tied.get(entry.logit) ?? []), entry]);
  for (const { id, distance, slack, logit } of entries) {
    const equals = tied.get(logit)!;
    const sumOf = (isIn: (other: number) => boolean) =>
      equals.reduce((sum, other) => (isIn(other.id) ? sum + other.p : sum), 0);
    const least = certainlyBelow(distance - slack, (difference) => difference < 0) + sumOf((other) => other < id);
    const most = maybeBelow(distance + slack, (difference) => difference <= 0) - sumOf((other) => other >= id);
    kept[id] = most <= typicalP - SLACK || (least > typicalP + SLACK ? false : undefined);
  }
  return kept;
}

/** top_k, then typical_p, then top_p of what is left, then min_p. `order` is the ranking of `logits`. */
export function filtered(logits: ArrayLike<number>, order: readonly number[], sampling: Sampling): Kept {
  const { temperature, topK, typicalP, topP, minP } = sampling;
  const largest = logits[order[0]!]!;
  const probability = (id: number) => Math.exp((logits[id]! - largest) / temperature);
  const ranked = topK > 0 ? order.slice(0, topK) : order;
  const isTypical = typicalP < 1 ? typical(logits, ranked, sampling) : undefined;
  const left = (id: number) => (isTypical ? isTypical[id] : true);
  const first = ranked.filter((id) => left(id) !== false);
  const certain = first.filter((id) => left(id) === true);
  const sum = (ids: readonly number[]) => ids.reduce((total, id) => total + probability(id), 0);
  const total: Band = [sum(certain), sum(first)];
  const likeliest: Band = [certain.length > 0 ? probability(certain[0]!) : 0, probability(first[0]!)];
  const kept: Kept = new Array(logits.length).fill(false);
  const above: [number, number] = [0, 0];
  for (const id of first) {
    const p = probability(id);
    const isFirst = id === certain[0] && id === first[0];
    const edge = SLACK * total[1];
    const inP = topP >= 1 || isFirst || above[1] < topP * total[0] - edge;
    const outP = topP < 1 && !isFirst && above[0] > topP * total[1] + edge;
    const inMin = minP === 0 || isFirst || p >= minP * likeliest[1] * (1 + SLACK);
    const outMin = minP > 0 && !isFirst && p < minP * likeliest[0] * (1 - SLACK);
    kept[id] = outP || outMin ? false : (inP && inMin && left(id)) || undefined;
    if (left(id) === true) above[0] += p;
    above[1] += p;
  }
  return kept;
}

/** The ids that are a correct sample of `logits` at `position`: one, or more where rounding decides; none: OUTPUT_NON_FINITE. */
export function acceptableSamples(logits: ArrayLike<number>, position: number, sampling: Sampling): Set<number> {
  if (!isDrawable(logits)) return new Set([OUTPUT_NON_FINITE]);
  const order = ranking(logits);
  const best = order[0]!;
  if (!(sampling.temperature >= Math.fround(1e-6))) return new Set([best]);
  const kept = filtered(logits, order, sampling);
  const score = (id: number) =>
    (logits[id]! - logits[best]!) / sampling.temperature +
    gumbel(philox([id, position + 1, sampling.sampleIndex, 0], sampling.seed)[0]!);
  const scores = Array.from(logits, (_, id) => (kept[id] === false ? Number.NEGATIVE_INFINITY : score(id)));
  let certain = Number.NEGATIVE_INFINITY;
  scores.forEach((value, id) => {
    if (kept[id] === true) certain = Math.max(certain, value);
  });
  const slack = (value: number) => SLACK * (10 + Math.abs(value));
  return new Set(order.filter((id) => kept[id] !== false && scores[id]! >= certain - slack(certain)));
}
