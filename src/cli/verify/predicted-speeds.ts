import { readFileSync } from 'node:fs';
import path from 'node:path';
import { packageRoot } from '../../shared/package.js';

/** Predicted times of a model of a shape on a card of a target, without one: written by `npm run predict -- --all`. */
export interface PredictedSpeed {
  readonly target: string;
  readonly card: string;
  readonly shape: string;
  readonly type: string;
  /** Tokens before the one that is predicted. */
  readonly position: number;
  /** Microseconds of a node of a replayed graph, and tokens a second with nodes of that. */
  readonly speeds: readonly { readonly nodeUs: number; readonly tokensPerSecond: number }[];
  /** Kernels that a token launches: number of launches, and microseconds of all together, without the nodes. */
  readonly kernels: Readonly<Record<string, { readonly launches: number; readonly us: number }>>;
}

/** All that is predicted; in the package. */
export function predictedSpeeds(): readonly PredictedSpeed[] {
  const file = path.join(packageRoot, 'docs', 'evidence', 'data', 'predicted-speeds.json');
  return JSON.parse(readFileSync(file, 'utf8'));
}
