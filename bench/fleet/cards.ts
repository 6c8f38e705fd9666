/** Measured durations of one card's steps, alone on its machine. */
export interface Card {
  /** Milliseconds of a step of one token of each of so many sequences, by how many; what lies between is interpolated. */
  readonly decodeMs: readonly (readonly [rows: number, ms: number])[];
  /** Rows of prompts a second, in steps of `stepTokens`. */
  readonly promptRate: number;
  readonly stepTokens: number;
}

/** Llama-3.1-8B in Q4_K_M, prompts of 128 to 512 tokens; docs/evidence/gpu-speed.md, many streams, the executor alone. */
const H200: Card = {
  decodeMs: [
    [1, 1.88],
    [8, 2.63],
    [32, 5.09],
    [64, 6.28],
    [128, 8.53],
    [256, 14.32],
  ],
  promptRate: 30_446,
  stepTokens: 512,
};

/**
 * The same on an H100, from what one replica did alone (docs/evidence/replicas.md): 64 prompts of 300 tokens at 28,972 rows a second, and what is
 * left of 64 × 400 tokens at 8,809 a second.
 */
const H100: Card = {
  decodeMs: [[64, (1000 * 64) / 8809 - (1000 * 64 * 300) / 28_972 / 400]],
  promptRate: 28_972,
  stepTokens: 512,
};

export const CARDS = { H200, H100 } as const;

/** Milliseconds of a step. */
export function stepMs({ decodeMs, promptRate }: Card, decodeRows: number, promptRows: number): number {
  return interpolated(decodeMs, decodeRows) + (1000 * promptRows) / promptRate;
}

function interpolated(points: Card['decodeMs'], rows: number): number {
  if (rows === 0) return 0;
  const above = points.findIndex(([at]) => at >= rows);
  const [last] = points.slice(-1) as [readonly [number, number]];
  if (above < 0) return (last[1] * rows) / last[0];
  const [to, toMs] = points[above] as readonly [number, number];
  if (above === 0) return toMs;
  const [from, fromMs] = points[above - 1] as readonly [number, number];
  return fromMs + ((toMs - fromMs) * (rows - from)) / (to - from);
}
