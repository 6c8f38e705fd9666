import type { ExecuteRequest, Slice, SlotOutput } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Device } from '../device/device.js';
import {
  ATTENTION_SPLIT,
  NO_SPLITS,
  OUTPUT_NON_FINITE,
  OUTPUT_WORDS,
  SLICE_WORDS,
  splitsContexts,
} from '../kernels/index.js';
import type { Prediction } from '../load/loaded-model.js';
import { nullStates, sliceWords } from '../model/slot-layout.js';
import {
  COUNT_DRAWS,
  COUNT_SAMPLES,
  COUNT_SLICES,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  STEP_COUNTS,
  settle,
} from '../model/step-counts.js';
import { OUTPUT_HEADER } from '../model/step-tables.js';
import { bytesOf } from '../parallel/model-devices.js';
import type { SlotTable } from './slots.js';
import { outputsOf } from './step-filler.js';

/** A slice as its prediction block sees it. */
interface PredictedSlice {
  readonly slice: Slice;
  /** Its first row in the step, and its first output. */
  readonly first: number;
  readonly output: number;
  /** The token after each position, as far as it is known before the step has run. */
  readonly tokens: readonly (number | undefined)[];
  /** Positions in the slot's blocks from the slice's start on. */
  readonly room: number;
}

/** A slot for which tokens are predicted. */
interface Chain {
  readonly slot: number;
  readonly wanted: number;
  /** The position that is next, and the last one in the slot's blocks. */
  position: number;
  readonly end: number;
  /** The sampled token behind which they are. */
  readonly output: number;
  readonly tokens: number[];
  isOver: boolean;
}

/**
 * Runs the block of a model that predicts further tokens: once over the rows of each step, with the tokens that follow them, so
 * that its keys and values are those of the sequence; then again and again over its own predictions, a row a slot.
 *
 * What it predicts are draft tokens: no sampled token depends on it.
 */
export class Predictor {
  private readonly input: Int32Array;
  private readonly answer: Int32Array;
  private readonly counts = new Int32Array(STEP_COUNTS);

  constructor(
    private readonly device: Device,
    private readonly prediction: Prediction,
  ) {
    const { tables } = prediction.forward;
    this.input = new Int32Array(tables.words);
    this.answer = new Int32Array(tables.answer.elements);
  }

  /** A step's slices, once it is filled in. */
  slicesOf({ slices }: ExecuteRequest, slots: SlotTable): readonly PredictedSlice[] {
    let [first, output] = [0, 0];
    return slices.map((slice) => {
      const known = { slice, first, output, ...slots.following(slice) };
      first += slice.count;
      output += outputsOf(slice);
      return known;
    });
  }

  /**
   * Predicts tokens behind those that a step has sampled, and adds them to its outputs.
   *
   * @param input tables of the step, which has run @param counts its counts
   * @returns microseconds on the device
   */
  async predict(
    input: Int32Array,
    counts: Int32Array,
    slices: readonly PredictedSlice[],
    outputs: readonly SlotOutput[],
  ): Promise<number> {
    const { tables } = this.prediction.forward;
    const { offsets } = tables;
    this.input.set(input.subarray(0, offsets.writePairs));
    const chains: Chain[] = [];
    for (const { slice, first, output, tokens, room } of slices) {
      const own = outputs.slice(output, output + outputsOf(slice));
      const sampledFrom = slice.count - own.length;
      for (let row = 0; row < slice.count; row++) {
        const sampled = own[row - sampledFrom];
        const token = tokens[row] ?? (sampled === undefined || isUnusable(sampled) ? 0 : sampled.tokenId);
        this.input[offsets.rowToken + first + row] = token;
      }
      const { predictedTokens: wanted = 0 } = slice;
      if (wanted === 0 || own.length === 0 || own.some(isUnusable)) continue;
      const last = acceptedOf(input.subarray(offsets.rowToken + first + sampledFrom), own) - 1;
      this.input[offsets.sampleRow + chains.length] = first + sampledFrom + last;
      const position = slice.position + sampledFrom + last;
      const end = slice.position + room;
      chains.push({
        ...{ slot: slice.slot, wanted, position, end },
        ...{ output: output + last, tokens: [], isOver: false },
      });
    }
    this.counts.fill(0);
    for (const index of [COUNT_TOKENS, COUNT_SPLITS, COUNT_SPLIT_ROWS, COUNT_TILES, COUNT_SLICES]) {
      this.counts[index] = counts[index] as number;
    }
    let us = await this.run(chains);
    while (chains.some(({ isOver }) => !isOver)) us += await this.further(chains);
    for (const { output, tokens } of chains) (outputs[output] as SlotOutput).predictedIds = tokens;
    return us;
  }

  /** One more token of each chain: a row for each, of those that are over one of the null slot. */
  private async further(chains: readonly Chain[]): Promise<number> {
    const { tables, limits } = this.prediction.forward;
    const { offsets } = tables;
    const rows = chains.length;
    let furthest = 1;
    for (const [row, { slot, position, tokens, isOver }] of chains.entries()) {
      this.input[offsets.rowToken + row] = isOver ? 0 : (tokens.at(-1) as number);
      this.input[offsets.rowPosition + row] = isOver ? 0 : position;
      this.input[offsets.rowSlot + row] = isOver ? limits.maxSequences : slot;
      this.input[offsets.sampleRow + row] = row;
      this.input.set([row, 1], offsets.tiles + 2 * row);
      if (!isOver) furthest = Math.max(furthest, position + 1);
      if (!limits.isRecurrent) continue;
      this.input[offsets.rowSlice + row] = row;
      this.input.set(sliceWords(row, 1, nullStates(limits)), offsets.slices + SLICE_WORDS * row);
    }
    const isSplit = splitsContexts(rows, rows, this.prediction.forward.splits ?? NO_SPLITS);
    this.counts.fill(0);
    this.counts[COUNT_TOKENS] = rows;
    this.counts[COUNT_SLICES] = rows;
    this.counts[COUNT_SPLITS] = Math.ceil(furthest / ATTENTION_SPLIT);
    this.counts[isSplit ? COUNT_SPLIT_ROWS : COUNT_TILES] = rows;
    return this.run(chains);
  }

  /** Runs the rows in the tables, and takes the token of each chain. @returns microseconds */
  private async run(chains: readonly Chain[]): Promise<number> {
    const { device, counts, input, answer, prediction } = this;
    const { tables } = prediction.forward;
    const { offsets } = tables;
    const samples = chains.length;
    counts[COUNT_SAMPLES] = counts[COUNT_DRAWS] = samples;
    settle(counts);
    input[offsets.tokens] = counts[COUNT_TOKENS] as number;
    input[offsets.samples] = input[offsets.draws] = samples;
    input[offsets.writes] = 0;
    const us = await device.native.run({
      ...{ plan: prediction.plan, counts: counts.slice(), recurring: false },
      input: new Uint8Array(input.buffer, 0, 4 * offsets.writePairs),
      deviceInput: tables.device.address,
      output: bytesOf(answer, samples === 0 ? 0 : OUTPUT_HEADER + samples * OUTPUT_WORDS),
      deviceOutput: tables.answer.address,
    });
    for (const [i, chain] of chains.entries()) {
      if (chain.isOver) continue;
      const token = answer[OUTPUT_HEADER + i * OUTPUT_WORDS] as number;
      if ((token & OUTPUT_NON_FINITE) !== 0) {
        chain.isOver = true;
        continue;
      }
      chain.tokens.push(token);
      chain.position += 1;
      // A position beyond has no block.
      chain.isOver = chain.tokens.length >= chain.wanted || chain.position >= chain.end;
    }
    return us;
  }
}

const isUnusable = ({ late, nonFinite }: SlotOutput): boolean => late || nonFinite;

/** Number of a slice's outputs that count: those up to the first draft token that is not what was sampled. */
function acceptedOf(rowTokens: Int32Array, outputs: readonly SlotOutput[]): number {
  let accepted = 1;
  while (accepted < outputs.length && rowTokens[accepted] === outputs[accepted - 1]?.tokenId) accepted += 1;
  return accepted;
}
