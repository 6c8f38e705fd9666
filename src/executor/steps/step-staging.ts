import { OUTPUT_WORDS } from '../kernels/index.js';
import { COUNT_PROMPT_ROWS, COUNT_SAMPLES } from '../model/step-counts.js';
import { OUTPUT_HEADER, type StepTables } from '../model/step-tables.js';
import type { PassEnd } from '../parallel/model-devices.js';
import type { MicroBatch } from './micro-batches.js';
import type { StepOutput } from './step-output.js';

/** Host memory of rows under way: of a step, or of a part of it. */
export interface Part {
  /** The step tables as {@link StepTables} lays them out. */
  readonly input: Int32Array;
  /** Words that the copy brings back: a header and outputs, and behind them the headers of stages before the last. */
  readonly answer: Int32Array;
}

/** Host memory of one step under way. */
export interface Staging extends StepOutput, Part {
  /** Staging memory of its parts, if a model is split. */
  readonly parts: readonly Part[];
  /** The masks as {@link StepMasks} lays them out. */
  readonly masks: Int32Array;
}

/** Puts what a part of a step brought back where it is in the step's. @param draws of the step */
export function gatherAnswer(staging: Staging, answer: Int32Array, part: MicroBatch, draws: number): void {
  const { counts, firstDraw, firstPromptRow } = part;
  const prompts = counts[COUNT_PROMPT_ROWS] as number;
  const drawn = (counts[COUNT_SAMPLES] as number) - prompts;
  const rows = (first: number, count: number) =>
    answer.subarray(OUTPUT_HEADER + first * OUTPUT_WORDS, OUTPUT_HEADER + (first + count) * OUTPUT_WORDS);
  staging.output.set(rows(0, drawn), firstDraw * OUTPUT_WORDS);
  staging.output.set(rows(drawn, prompts), (draws + firstPromptRow) * OUTPUT_WORDS);
}

/** @param count of all steps, modulo 2³² */
export function newly(tables: StepTables, count: number): number {
  const more = (count - tables.saturatedSoFar) >>> 0;
  tables.saturatedSoFar = count;
  return more;
}

/** Microseconds from the first part's beginning to the last one's end, where no stage waits for another but for the first. */
export function passUs(parts: readonly PassEnd['stageUs'][]): number {
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, us) => total + us, 0);
  return sum(parts[0] ?? []) + sum(parts.slice(1).map((stages) => stages.at(-1) ?? 0));
}
