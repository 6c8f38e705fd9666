import { OUTPUT_NON_FINITE } from '../../../src/executor/kernels/index.js';
import { gumbel, philox } from './philox.js';

/** What a slot says about sampling. */
export interface Sampling {
  readonly temperature: number;
  /** 0: all. */
  readonly topK: number;
  /** 1: all. */
  readonly topP: number;
  /** 0: all. */
  readonly minP: number;
  readonly seed: readonly [low: number, high: number];
  readonly sampleIndex: number;
}

/** Whether there is a largest logit and it is finite: what is masked is -inf, and a NaN spoils its row. */
export function isDrawable(logits: ArrayLike<number>): boolean {
  const values = Array.from(logits);
  return !values.some(Number.isNaN) && Number.isFinite(values.reduce((a, b) => Math.max(a, b)));
}

/** f32 rounding of scores and probabilities: within this of an edge the kernel may decide either way. */
const SLACK = 2e-5;

/** Ids by falling logit; equal logits: the lower id first. */
export function ranking(logits: ArrayLike<number>): number[] {
  return Array.from(logits, (_, i) => i).sort((a, b) => logits[b]! - logits[a]! || a - b);
}

/** Whether each id survives a filter: `undefined` within rounding of the filter's edge. */
export type Kept = (boolean | undefined)[];

/** top_k, then top_p of what is left, then min_p. `order` is the ranking of `logits`. */
export function filtered(logits: ArrayLike<number>, order: readonly number[], sampling: Sampling): Kept {
  const { temperature, topK, topP, minP } = sampling;
  const largest = logits[order[0]!]!;
  const probability = (id: number) => Math.exp((logits[id]! - largest) / temperature);
  const kept: Kept = new Array(logits.length).fill(false);
  const first = topK > 0 ? order.slice(0, topK) : order;
  const total = first.reduce((sum, id) => sum + probability(id), 0);
  let above = 0;
  for (const id of first) {
    const p = probability(id);
    const edgeP = topP < 1 && id !== order[0] && Math.abs(above - topP * total) < SLACK * total;
    const edgeMin = minP > 0 && Math.abs(p - minP) < SLACK * minP;
    const inside = (topP >= 1 || id === order[0] || above < topP * total) && p >= minP;
    kept[id] = edgeP || edgeMin ? (inside || edgeP || edgeMin ? undefined : false) : inside;
    above += p;
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
