import {
  COUNT_DRAWS,
  COUNT_PROMPT_ROWS,
  COUNT_SAMPLES,
  COUNT_SPLIT_ROWS,
  COUNT_TILES,
  COUNT_TOKENS,
  COUNT_WRITES,
  settle,
} from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';

/** Rows of a step that go through the stages of a split model together. */
export interface MicroBatch {
  /** The step tables of these rows, and how many of their words are in use. */
  readonly input: Int32Array;
  readonly words: number;
  readonly counts: Int32Array;
  /** Which of the step's sampled rows are the first of its own, and which of its prompts' rows. */
  readonly firstDraw: number;
  readonly firstPromptRow: number;
}

/** Sizes of a step's tables. */
interface FilledTables {
  readonly input: Int32Array;
  readonly words: number;
  readonly counts: Int32Array;
}

/**
 * Cuts a step of a model without states into parts of consecutive rows, so that one device computes the next part while
 * another goes on with this one. A row's bits do not depend on its part.
 *
 * @param most parts
 * @param least rows of a part
 * @param room for the tables of each part; the first may be the step's own
 */
export function microBatches(
  step: FilledTables,
  offsets: StepTables['offsets'],
  most: number,
  least: number,
  room: readonly Int32Array[],
): readonly MicroBatch[] {
  const rows = step.counts[COUNT_TOKENS] as number;
  const parts = Math.max(1, Math.min(most, Math.floor(rows / least)));
  const cuts = [...cutsOf(step, offsets, parts), rows];
  if (cuts.length === 1) return [{ ...step, firstDraw: 0, firstPromptRow: 0 }];
  const draws = step.counts[COUNT_DRAWS] as number;
  const samples = step.counts[COUNT_SAMPLES] as number;
  let [draw, promptRow, from] = [0, draws, 0];
  return cuts.map((to, part): MicroBatch => {
    const input = room[part] as Int32Array;
    const counts = step.counts.slice();
    const [firstDraw, firstPromptRow] = [draw, promptRow];
    const sampledBefore = (end: number, index: number, last: number): number => {
      let next = index;
      while (next < last && (step.input[offsets.sampleRow + next] as number) < end) next += 1;
      return next;
    };
    draw = sampledBefore(to, draw, draws);
    promptRow = sampledBefore(to, promptRow, samples);
    for (const section of ['rowToken', 'rowPosition', 'rowSlot'] as const) {
      const at = offsets[section];
      input.set(step.input.subarray(at + from, at + to), at);
    }
    let sample = 0;
    for (const [first, last] of [
      [firstDraw, draw],
      [firstPromptRow, promptRow],
    ] as const) {
      for (let index = first; index < last; index++) {
        input[offsets.sampleRow + sample] = (step.input[offsets.sampleRow + index] as number) - from;
        input[offsets.promptTarget + 2 * sample] = step.input[offsets.promptTarget + 2 * index] as number;
        input[offsets.promptTarget + 2 * sample + 1] = step.input[offsets.promptTarget + 2 * index + 1] as number;
        sample += 1;
      }
    }
    const tiles = tilesOf(step, offsets).filter(([first]) => first >= from && first < to);
    for (const [i, [first, count]] of tiles.entries()) input.set([first - from, count], offsets.tiles + 2 * i);
    const isFirst = part === 0;
    // Changes of slots come before all rows.
    const writes = isFirst ? (step.counts[COUNT_WRITES] as number) : 0;
    const words = offsets.writePairs + 2 * writes;
    if (isFirst) input.set(step.input.subarray(offsets.writePairs, words), offsets.writePairs);
    counts[COUNT_TOKENS] = input[offsets.tokens] = to - from;
    counts[COUNT_SAMPLES] = input[offsets.samples] = sample;
    counts[COUNT_DRAWS] = input[offsets.draws] = draw - firstDraw;
    counts[COUNT_PROMPT_ROWS] = promptRow - firstPromptRow;
    counts[COUNT_WRITES] = input[offsets.writes] = writes;
    // Contexts are split in all of a step or in none of it.
    if (counts[COUNT_SPLIT_ROWS] !== 0) counts[COUNT_SPLIT_ROWS] = to - from;
    else counts[COUNT_TILES] = tiles.length;
    settle(counts);
    from = to;
    return { input, words, counts, firstDraw, firstPromptRow: firstPromptRow - draws };
  });
}

/**
 * The rows at which parts but the first begin: where a tile does, and never between rows of one slot that sample, which
 * the draw of their tokens sees together.
 */
function cutsOf(step: FilledTables, offsets: StepTables['offsets'], parts: number): number[] {
  if (parts === 1) return [];
  const rows = step.counts[COUNT_TOKENS] as number;
  const starts = new Set(tilesOf(step, offsets).map(([first]) => first));
  const { input } = step;
  const sampled = new Set(input.subarray(offsets.sampleRow, offsets.sampleRow + (step.counts[COUNT_DRAWS] as number)));
  const slotOf = (row: number): number => input[offsets.rowSlot + row] as number;
  const mayCut = (row: number): boolean =>
    starts.has(row) && !(sampled.has(row - 1) && sampled.has(row) && slotOf(row - 1) === slotOf(row));
  const cuts: number[] = [];
  for (let part = 1; part < parts; part++) {
    let row = Math.round((part * rows) / parts);
    while (row < rows && !mayCut(row)) row += 1;
    if (row < rows && row > (cuts.at(-1) ?? 0)) cuts.push(row);
  }
  return cuts;
}

/** [first row, rows] of each. Where contexts are split among blocks they are written all the same. */
function tilesOf({ input, counts }: FilledTables, offsets: StepTables['offsets']): (readonly [number, number])[] {
  const rows = counts[COUNT_TOKENS] as number;
  const tiles: (readonly [number, number])[] = [];
  for (let covered = 0, i = offsets.tiles; covered < rows; i += 2) {
    const [first, count] = [input[i] as number, input[i + 1] as number];
    tiles.push([first, count]);
    covered += count;
  }
  return tiles;
}
