import { columnsOf, type StageGraph, type Value } from '../model/values.js';

/** Columns of the widest value of a kind; at least 1. */
export function widestOf(values: readonly Value[], kind: Value['kind'], hiddenSize: number): number {
  return Math.max(1, ...values.filter((value) => value.kind === kind).map((value) => columnsOf(value, hiddenSize)));
}

/** Columns of the product that an encoder's hidden states are a product of; 0 where there is none. */
export function innerColumnsOf({ states }: StageGraph): number {
  return states?.kind === 'linear' && states.of.kind === 'linear' ? columnsOf(states.of, 0) : 0;
}
