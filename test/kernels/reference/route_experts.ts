import type { Reference } from '../support/compare.js';

export interface Routing {
  readonly experts: number;
  readonly used: number;
  readonly scoring: 'softmax' | 'sigmoid' | 'chosen';
  readonly normalizes: boolean;
  readonly scale: number;
  readonly groups?: { readonly count: number; readonly used: number };
}

/** The experts of each row, by id, and their weights; the smallest distance between a chosen and another one. */
export function routeExperts(scores: Float32Array, bias: Float32Array, routing: Routing) {
  const { experts, used, scoring, normalizes, scale, groups = { count: 1, used: 1 } } = routing;
  const size = experts / groups.count;
  const rows = scores.length / experts;
  const ids: number[] = [];
  const weights: number[] = [];
  let gap = Number.POSITIVE_INFINITY;
  for (let row = 0; row < rows; row++) {
    const own = Array.from(scores.subarray(row * experts, (row + 1) * experts));
    const values =
      scoring === 'softmax' ? softmax(own) : own.map((s) => (scoring === 'sigmoid' ? 1 / (1 + Math.exp(-s)) : s));
    const choice = values.map((value, e) => value + bias[e]!);
    const sums = Array.from({ length: groups.count }, (_, group) => {
      const [first = 0, second = 0] = choice.slice(group * size, (group + 1) * size).sort((a, b) => b - a);
      return first + second;
    });
    const best = [...sums.keys()].sort((a, b) => sums[b]! - sums[a]! || a - b);
    if (groups.used < groups.count) gap = Math.min(gap, sums[best[groups.used - 1]!]! - sums[best[groups.used]!]!);
    const isAllowed = (e: number) => best.indexOf(Math.floor(e / size)) < groups.used;
    const ranked = [...choice.keys()].filter(isAllowed).sort((a, b) => choice[b]! - choice[a]! || a - b);
    if (used < ranked.length) gap = Math.min(gap, choice[ranked[used - 1]!]! - choice[ranked[used]!]!);
    const chosen = ranked.slice(0, used).sort((a, b) => a - b);
    let shares = chosen.map((e) => values[e]!);
    if (scoring === 'chosen') shares = softmax(shares);
    else if (normalizes) {
      const total = Math.max(
        shares.reduce((sum, share) => sum + share, 0),
        2 ** -14,
      );
      shares = shares.map((share) => share / total);
    }
    ids.push(...chosen);
    weights.push(...shares.map((share) => share * scale));
  }
  return { ids: Int32Array.from(ids), weights: { values: Float64Array.from(weights) } satisfies Reference, gap };
}

function softmax(scores: readonly number[]): number[] {
  const largest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}
