import { type ModelGraph, valuesOf } from './values.js';

/** Layers whose positions hide what is a window behind them. */
export interface WindowedLayers {
  readonly layers: ReadonlySet<number>;
  /** The most positions that any of them sees. */
  readonly window: number;
}

/** @returns undefined where nothing is ever hidden in a context of so many positions */
export function windowedLayers(graph: ModelGraph, maxContext: number): WindowedLayers | undefined {
  const windows = new Map<number, number>();
  for (const value of valuesOf(graph)) {
    if (value.kind !== 'attention' || value.window === undefined || value.window >= maxContext) continue;
    windows.set(value.layer, value.window);
  }
  return windows.size === 0 ? undefined : { layers: new Set(windows.keys()), window: Math.max(...windows.values()) };
}
