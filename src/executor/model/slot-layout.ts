import {
  encodeSampling,
  FIRST_SAMPLING_WORD,
  NEUTRAL_SAMPLING,
  SLOT_SAMPLING_COUNT,
  SLOT_SAMPLING_WORDS,
  slotSamplingWords,
} from '../../shared/sampling-schema.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { Limits } from './limits.js';

/**
 * Words of a slot on the device: the token it sampled last, how it samples, its block table, and where layers have a window
 * a table of those layers' blocks. Kernels take them from `forge/contract.h`, which the build writes.
 */
export const SlotWord = {
  lastToken: 0,
  ...SLOT_SAMPLING_WORDS,
  blockTable: 16 * Math.ceil((FIRST_SAMPLING_WORD + SLOT_SAMPLING_COUNT) / 16),
} as const;

/** Blocks that hold `tokens` tokens. */
export function blocksFor(tokens: number): number {
  return Math.ceil(tokens / KV_BLOCK_TOKENS);
}

/** The most tokens of one sequence whose logits may be biased or held down. */
export const BIAS_ENTRIES = 320;

/**
 * All slots' memory as one range of int32 words, so that one kernel writes any of it: the slots, then for each the
 * history that penalties look at, then for each the biases of its logits.
 */
export interface SlotArena {
  /** Slots in all, the null slot included. */
  readonly slots: number;
  readonly slotWords: number;
  /**
   * Words from the block table to that of layers with a window. Entry i of either leads to the positions from
   * i · KV_BLOCK_TOKENS on; a windowed one whose block has left leads to the null block.
   */
  readonly windowTable: number;
  /** Per slot `[1 + 2 * historyEntries]`: how many, then token and times generated; -1: none is kept. */
  readonly historyOffset: number;
  readonly historyEntries: number;
  /** Per slot `[1 + 2 * BIAS_ENTRIES]`: how many, then token and f32 bits of its bias. */
  readonly biasOffset: number;
  readonly words: number;
}

/**
 * Layout of slots of this number and size. One more slot than there are sequences: the last is the null slot
 * of rows that only fill a step up to the size of a captured graph. Its positions lie in the null block.
 */
export function slotArena(limits: Pick<Limits, 'maxSequences' | 'maxContext' | 'windowed'>): SlotArena {
  const windowTable = blocksFor(limits.maxContext);
  const words = SlotWord.blockTable + (limits.windowed === undefined ? 1 : 2) * windowTable;
  const slots = limits.maxSequences + 1;
  const historyOffset = slots * words;
  const biasOffset = historyOffset + slots * (1 + 2 * limits.maxContext);
  return {
    slots,
    slotWords: words,
    windowTable,
    historyOffset,
    historyEntries: limits.maxContext,
    biasOffset,
    words: biasOffset + slots * (1 + 2 * BIAS_ENTRIES),
  };
}

/**
 * The arena before any slot is open. The null slot is neutral: greedy, without penalties, biases or a history, so that its
 * rows copy no logits and several of them in one step change nothing that they share.
 */
export function emptySlots(arena: SlotArena): Int32Array {
  const words = new Int32Array(arena.words);
  words.set(
    slotSamplingWords(encodeSampling(NEUTRAL_SAMPLING)),
    (arena.slots - 1) * arena.slotWords + FIRST_SAMPLING_WORD,
  );
  words[arena.historyOffset + (arena.slots - 1) * (1 + 2 * arena.historyEntries)] = -1;
  return words;
}

/** An arena in which every slot is neutral, as the null slot is. */
export function neutralSlots(arena: SlotArena): Int32Array {
  const words = new Int32Array(arena.words);
  const neutral = slotSamplingWords(encodeSampling(NEUTRAL_SAMPLING));
  for (let slot = 0; slot < arena.slots; slot++) {
    words.set(neutral, slot * arena.slotWords + FIRST_SAMPLING_WORD);
    words[arena.historyOffset + slot * (1 + 2 * arena.historyEntries)] = -1;
  }
  return words;
}

type StateLimits = Pick<Limits, 'maxSequences' | 'stateSnapshots'>;

/** States on the device: two copies of each slot's, those of the null slot included, and the snapshots. */
export const stateCopies = ({ maxSequences, stateSnapshots = 0 }: StateLimits): number =>
  2 * (maxSequences + 1) + stateSnapshots;

/** Index of a snapshot among the states. @param id from 1 */
export const snapshotState = ({ maxSequences }: StateLimits, id: number): number => 2 * (maxSequences + 1) + id - 1;

/** A slice's states, as kernels take them: `SLICE_WORDS` without its rows. */
export interface SliceStates {
  /** Numbers of states. No source: the slice begins its sequence; no target: none is written. */
  readonly source: number;
  readonly target: number;
  /** True if the state before the slice's own rows is written, in place of the one after them. */
  readonly isBefore: boolean;
  /** Replay rows between the source and the slice, and the first of them. */
  readonly replayed: number;
  readonly replayRow: number;
}

/** The states of the null slot. */
export const nullStates = ({ maxSequences }: StateLimits): SliceStates => ({
  ...{ source: 2 * maxSequences, target: 2 * maxSequences + 1 },
  ...{ isBefore: false, replayed: 0, replayRow: 0 },
});

/** Words of a slice. @param first its first row in the step @param rows number of its rows */
export const sliceWords = (first: number, rows: number, states: SliceStates): readonly number[] => [
  ...[first, rows, states.source, states.target],
  ...[states.isBefore ? 0 : rows, states.replayed, states.replayRow],
];

/** Replay rows of a slot: its last known token, and the draft tokens after it. */
export const replayRowsOfSlot = ({ draftTokens = 0 }: Pick<Limits, 'draftTokens'>): number =>
  draftTokens === 0 ? 0 : 1 + draftTokens;

/** Replay rows of all slots. One if there are none: buffers are not empty. */
export const replayRows = (limits: Pick<Limits, 'maxSequences' | 'draftTokens'>): number =>
  Math.max(1, limits.maxSequences * replayRowsOfSlot(limits));
