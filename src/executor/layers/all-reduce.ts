import type { Allocator, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { Limits } from '../model/limits.js';
import { type Rank, vocabularyPart } from '../model/shards.js';
import type { StepTables } from '../model/step-tables.js';
import { type StageGraph, valuesOf } from '../model/values.js';
import type { RankValues, SingleToken } from './single-token.js';

/** Milliseconds that a rank waits for another one in a meeting: a step takes less, whatever it is of. */
export const PATIENCE_MS = 10_000;

/** Buffers of parts that take turns. The last meeting of a pass has the third, should its number be odd. */
const PART_BUFFERS = 3;

/** Memory of a device of a tensor split that the others use: they read its parts, and write its words. */
export interface RankMemory {
  /** Products of its columns, `[max_step_tokens, hidden]` f32 each. */
  readonly parts: readonly DeviceBuffer[];
  /** Logits of its rows of the vocabulary, `[max_sequences, part]` f32. */
  readonly logits: DeviceBuffer;
  /** `[barriers, WORDS_A_BARRIER]` i32: which pass each rank has come to there. */
  readonly words: DeviceBuffer;
}

/** A rank's place among the others, and the memory of all. */
export interface RankPlace extends Rank {
  readonly memories: readonly RankMemory[];
}

/** Sums of a pass. */
const sumsOf = (graph: StageGraph): number => [...valuesOf(graph)].filter(({ kind }) => kind === 'rank-sum').length;

/** @param graph of the rank */
export function rankMemory(
  memory: Allocator,
  graph: StageGraph,
  { maxStepTokens, maxSequences }: Limits,
  sizes: { readonly hiddenSize: number; readonly vocabularySize: number },
  place: Rank,
): RankMemory {
  const { part } = vocabularyPart(sizes.vocabularySize, place);
  const words = new Int32Array((sumsOf(graph) + 1) * kernels.WORDS_A_BARRIER);
  return {
    parts: Array.from({ length: PART_BUFFERS }, () => memory.allocate('f32', maxStepTokens * sizes.hiddenSize)),
    logits: memory.allocate('f32', maxSequences * part),
    words: memory.upload(words),
  };
}

/**
 * All-reduce of a tensor split: each rank has computed a part of a product, waits for the others' and reads them. A
 * part may be written again when its rank has been in the next meeting: the others had read it before they came there.
 */
export class AllReduce {
  private barriers = 0;
  private readonly sums: number;

  constructor(
    private readonly plan: LaunchPlanRecorder,
    private readonly tables: StepTables,
    private readonly place: RankPlace,
    graph: StageGraph,
  ) {
    this.sums = sumsOf(graph);
  }

  /** Destination of this rank's part of the next sum. */
  get part(): DeviceBuffer {
    return this.own.parts[this.buffer] as DeviceBuffer;
  }

  /** Destination of this rank's logits. */
  get logits(): DeviceBuffer {
    return this.own.logits;
  }

  /**
   * y = the sum of all ranks' parts, or y += it.
   *
   * @param row where steps of one row leave the sums of squares of what y becomes
   */
  sum(y: DeviceBuffer, columns: number, rows: Rows, accumulate: boolean, row?: SingleToken): void {
    const { ranks, memories } = this.place;
    const barrier = this.barrier(memories.map((memory) => memory.parts[this.buffer] as DeviceBuffer));
    const values = { ...barrier, y, columns };
    const dims = this.dims(rows);
    row?.addRanks(ranks, values, { ...dims, rows: 1 });
    this.plan.launch(kernels.sumRanks(ranks), { ...values, accumulate: Number(accumulate) }, dims, row?.multiToken);
  }

  /** y = all ranks' logits side by side. */
  gather(y: DeviceBuffer, columns: number, rows: Rows): void {
    const { place } = this;
    const { part } = vocabularyPart(columns, place);
    const parts = place.memories.map(({ logits }) => logits);
    this.plan.launch(kernels.gatherRanks(place.ranks), { ...this.barrier(parts), y, columns, part }, this.dims(rows));
  }

  private get own(): RankMemory {
    return this.place.memories[this.place.rank] as RankMemory;
  }

  private get buffer(): number {
    const isOddLast = this.barriers === this.sums - 1 && this.sums % 2 === 1;
    return isOddLast ? PART_BUFFERS - 1 : this.barriers % 2;
  }

  private dims({ count }: Rows) {
    return { rows: count, barriers: this.sums + 1 };
  }

  private barrier(parts: readonly DeviceBuffer[]): RankValues {
    const { rank, memories } = this.place;
    const { tables } = this;
    return {
      ...Object.fromEntries(parts.map((buffer, i) => [`p${i}`, buffer])),
      ...Object.fromEntries(memories.map(({ words }, i) => [`w${i}`, words])),
      pass: tables.at('pass'),
      ended: tables.ended,
      ...{ rank, barrier: this.barriers++, patience_ms: PATIENCE_MS },
    };
  }
}
