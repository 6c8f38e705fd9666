export interface Card {
  readonly name: string;
  /** Four SIMDs each. */
  readonly units: number;
  readonly clockGhz: number;
  readonly memoryGBs: number;
  readonly l2GBs: number;
  readonly readShare: number;
  readonly latency: Readonly<Record<'far' | 'near' | 'lds' | 'scalar' | 'issue', number>>;
  readonly nodeUs: readonly number[];
  readonly blockNs: number;
  readonly cycles: Readonly<Record<string, number>>;
}
/** See predictLaunch(): of a block, but `blocks` and `resident`. */
export interface CountedLaunch {
  readonly blocks: number;
  /** Blocks that fit on a unit. */
  readonly resident: number;
  /** Wave-instructions by class. */
  readonly perBlock: Readonly<Record<string, number>>;
  readonly ldsPasses: number;
  readonly asked: number;
  readonly touched: number;
  readonly cached?: number;
  readonly shared: number;
  readonly chain: number;
  readonly longestChain?: number;
  readonly head: number;
  readonly drain: number;
}
export interface Prediction {
  readonly longest: number;
  readonly by: string;
  readonly memoryBytes: number;
  readonly parts: Readonly<Record<string, number>>;
  readonly waiting: number;
  readonly estimate: number;
}
export const CARDS: Readonly<Record<string, Card>>;
export function predictLaunch(card: Card, launch: CountedLaunch): Prediction;
export function predictToken(predictions: readonly { estimate: number; times: number }[], nodeUs: number): number;
