export interface Card {
  readonly name: string;
  /** Four SIMDs each. */
  readonly units: number;
  readonly clockGhz: number;
  readonly memoryGBs: number;
  readonly l2GBs: number;
  readonly readShare: number;
  readonly latencyNs: number;
  readonly nodeUs: readonly number[];
  readonly blockNs: number;
  readonly cycles: Readonly<Record<string, number>>;
}
export interface CountedLaunch {
  readonly blocks: number;
  /** Lanes. */
  readonly wave: number;
  /** Wave-instructions by class. */
  readonly perBlock: Readonly<Record<string, number>>;
  readonly asked: number;
  readonly lines: number;
  readonly shared: number;
}
export interface Prediction {
  readonly longest: number;
  readonly by: string;
  readonly memoryBytes: number;
  readonly parts: Readonly<Record<string, number>>;
  readonly estimate: number;
}
export const CARDS: Readonly<Record<string, Card>>;
export function predictLaunch(card: Card, launch: CountedLaunch): Prediction;
export function predictToken(predictions: readonly { estimate: number; times: number }[], nodeUs: number): number;
