import type { ExecuteRequest } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { SLICE_WORDS } from '../kernels/index.js';
import { countsOf, samplingMode } from '../load/graph-buckets.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { nullStates, sliceWords } from '../model/slot-layout.js';
import {
  COUNT_KEPT,
  COUNT_PROMPT_ROWS,
  COUNT_SPLITS,
  COUNT_STATES,
  COUNT_TOKENS,
  COUNT_WRITES,
} from '../model/step-counts.js';
import type { MicroBatch } from './micro-batches.js';
import { outputsOf } from './step-filler.js';

/**
 * True if a GPU runs the step as a captured graph: one token of each of some sequences, and draft tokens, which count as tokens of
 * other sequences except where slots have states.
 */
export function isRecurring({ slices }: ExecuteRequest, counts: Int32Array): boolean {
  if (slices.length === 0 || counts[COUNT_PROMPT_ROWS] !== 0 || counts[COUNT_STATES] !== 0) return false;
  if (counts[COUNT_KEPT] !== 0) return false;
  return slices.every((slice) => slice.sample && slice.count === outputsOf(slice));
}

/**
 * The counts rounded up to those of a captured graph; fills the rows between with the null slot's position 0: they
 * read and write the null block, and nobody reads their results.
 */
export function filledUp({ forward, graphs }: LoadedModel, { input: words, counts }: MicroBatch): Int32Array {
  const { limits, tables } = forward;
  const { offsets } = tables;
  const rows = counts[COUNT_TOKENS] as number;
  const states = nullStates(limits);
  const bucket = graphs.buckets.of(rows, counts[COUNT_SPLITS] as number, samplingMode(counts));
  graphs.require(bucket);
  for (let row = rows; row < bucket.rows; row++) {
    words[offsets.rowToken + row] = 0;
    words[offsets.rowPosition + row] = 0;
    words[offsets.rowSlot + row] = limits.maxSequences;
    words[offsets.sampleRow + row] = row;
    words[offsets.tiles + 2 * row] = row;
    words[offsets.tiles + 2 * row + 1] = 1;
    if (!limits.isRecurrent) continue;
    words[offsets.rowSlice + row] = row;
    words.set(sliceWords(row, 1, states), offsets.slices + SLICE_WORDS * row);
  }
  const filled = countsOf(bucket);
  filled[COUNT_WRITES] = counts[COUNT_WRITES] as number;
  return filled;
}
