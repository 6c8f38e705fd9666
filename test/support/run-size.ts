import type { Tier } from '../tiers.mjs';
import { TIER_NAMES } from '../tiers.mjs';

const named = process.env.ROCMFORGE_TIER ?? 'default';
if (!(TIER_NAMES as readonly string[]).includes(named)) {
  throw new Error(`ROCMFORGE_TIER is "${named}"; use ${TIER_NAMES.join(', ')}`);
}

/** The tier that runs; see test/tiers.mjs. */
export const TIER = named as Tier;
export const isFull = TIER === 'full';
export const isQuick = TIER === 'unit' || TIER === 'quick';

/** Share of the generated cases that a tier runs, where a test states those of the full tier. */
const SHARES: Readonly<Record<Tier, number>> = { unit: 0.1, quick: 0.1, default: 0.25, full: 1 };
const share = Number(process.env.ROCMFORGE_RUNS ?? SHARES[TIER]);
if (!(share > 0)) throw new Error(`ROCMFORGE_RUNS is "${process.env.ROCMFORGE_RUNS}"; use a factor above 0`);

/**
 * Number of generated cases: those of the full tier, scaled by the tier or by `ROCMFORGE_RUNS` (a factor).
 *
 * @param least what a test needs at least to show anything
 */
export function runs(ofFullTier: number, least = 1): number {
  return Math.max(least, Math.ceil(ofFullTier * share));
}

/**
 * Minimum of the generated cases of a run, if the full tier's amount to `ofFullTier`: half of the share in
 * smaller tiers, because few cases vary more.
 */
export const scaled = (ofFullTier: number): number => (share >= 1 ? ofFullTier : Math.floor((ofFullTier * share) / 2));

/** Value for the tier that runs. */
export function byTier<T>(choices: { readonly quick: T; readonly default: T; readonly full: T }): T {
  return choices[TIER === 'unit' ? 'quick' : TIER];
}

/** The first so many cases; all of them in the full tier. */
export const firstOf = <T>(count: number, cases: readonly T[]): readonly T[] =>
  isFull ? cases : cases.slice(0, count);

const runSeed = process.env.ROCMFORGE_SEED;
if (runSeed !== undefined && !/^\d{1,9}$/.test(runSeed)) {
  throw new Error(`ROCMFORGE_SEED is "${runSeed}"; use an integer from 0 to 999999999`);
}

/**
 * Seed of generated cases: the test's own, or another one that `ROCMFORGE_SEED` determines. `npm run test:full` draws and
 * prints a new one for each run.
 */
export function seed(own: number): number {
  if (runSeed === undefined) return own;
  return (Math.imul(own ^ Number(runSeed), 0x9e3779b1) >>> 1) & 0x3fffffff;
}
