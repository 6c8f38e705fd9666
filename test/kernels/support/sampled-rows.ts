import type { KernelContract } from '../../../src/executor/device/contract.js';
import {
  copyAdjusted,
  FILTER_WORDS,
  SAMPLE_PART_WORDS,
  SAMPLE_PARTS,
  sampleBest,
  sampleBins,
  sampleCandidates,
  sampleDraw,
  sampleFilter,
  samplePick,
} from '../../../src/executor/kernels/index.js';
import { SlotWord } from '../../../src/executor/model/slot-layout.js';
import { FIRST_SAMPLING_WORD } from '../../../src/shared/sampling-schema.js';
import { type Sampling, samplingWords } from '../reference/sample.js';
import { bitsOf } from './half.js';
import type { Target } from './targets.js';
import { fill, type Random } from './values.js';

/** Biases a slot may have here. */
const ENTRIES = 2;
const OUTPUT_WORDS = 3;

export interface SampledRow {
  readonly logits: Float32Array;
  readonly sampling: Sampling;
  readonly position: number;
  /** True if the row is drawn from its adjusted logits, and why. */
  readonly adjusts: 'no' | 'repetition' | 'frequency' | 'presence' | 'bias';
}

/** Rows of random logits for the given parameters; some tie for the largest. */
export function randomRows(count: number, vocabulary: number, samplings: readonly Sampling[], random: Random) {
  const reasons = ['no', 'no', 'repetition', 'frequency', 'presence', 'bias'] as const;
  return Array.from({ length: count }, (_, i): SampledRow => {
    const logits = fill('normal', vocabulary, random);
    for (let tie = 0; tie < 2; tie++) logits[random.below(vocabulary)] = 4.5;
    const sampling = samplings[i % samplings.length]!;
    return { logits, sampling, position: random.below(1000), adjusts: reasons[random.below(reasons.length)]! };
  });
}

/** Sampled rows as the kernels get them: slots back to front, so that a row and its slot differ. */
export class SampledStep {
  readonly vocabulary: number;
  readonly slotWords = SlotWord.blockTable + 1;
  readonly logits: Float32Array;
  readonly adjusted: Float32Array;
  private readonly slots: Int32Array;
  private readonly biases: Int32Array;

  constructor(readonly rows: readonly SampledRow[]) {
    this.vocabulary = rows[0]!.logits.length;
    this.slots = new Int32Array(rows.length * this.slotWords);
    this.biases = new Int32Array(rows.length * (1 + 2 * ENTRIES));
    this.logits = new Float32Array(rows.length * this.vocabulary);
    this.adjusted = this.logits.slice().fill(Number.NaN);
    rows.forEach(({ logits, sampling, adjusts }, i) => {
      const slot = rows.length - 1 - i;
      const words = this.slots.subarray(slot * this.slotWords, (slot + 1) * this.slotWords);
      words.set(samplingWords(sampling), FIRST_SAMPLING_WORD);
      words[SlotWord.repetitionPenalty] = bitsOf(adjusts === 'repetition' ? 1.5 : 1);
      words[SlotWord.frequencyPenalty] = bitsOf(adjusts === 'frequency' ? 0.5 : 0);
      words[SlotWord.presencePenalty] = bitsOf(adjusts === 'presence' ? -0.5 : 0);
      this.biases[slot * (1 + 2 * ENTRIES)] = adjusts === 'bias' ? 1 : 0;
      // Logits that need no adjustment would be drawn from at once.
      const [from, other] = adjusts === 'no' ? [this.logits, this.adjusted] : [this.adjusted, this.logits];
      from.set(logits, i * this.vocabulary);
      if (adjusts !== 'no') other.fill(1e30, i * this.vocabulary, (i + 1) * this.vocabulary);
    });
  }

  get dimensions() {
    return { samples: this.rows.length, tokens: this.rows.length, slot_count: this.rows.length };
  }

  /** Arguments of all the kernels. */
  get shared() {
    const order = this.rows.map((_, i) => i);
    return {
      ...{ logits: this.logits, adjusted: this.adjusted, slots: this.slots, biases: this.biases },
      sample_row: Int32Array.from(order),
      row_slot: Int32Array.from(order, (i) => this.rows.length - 1 - i),
      ...{ slot_words: this.slotWords, entries: ENTRIES, vocabulary: this.vocabulary },
    };
  }

  get rowPosition(): Int32Array {
    return Int32Array.from(this.rows, ({ position }) => position);
  }

  /** Results of sample_best. */
  async best(target: Target): Promise<Int32Array> {
    const parts = new Int32Array(this.rows.length * SAMPLE_PART_WORDS * SAMPLE_PARTS).fill(-7);
    const result = await target.launch(sampleBest, { ...this.shared, parts }, this.dimensions);
    return result.parts as Int32Array;
  }

  /** Results of sample_bins, sample_candidates and sample_filter, after sample_best left `parts`. */
  async filters(target: Target, parts: Int32Array): Promise<Record<'bins' | 'candidates' | 'filtered', Int32Array>> {
    const launch = async (contract: KernelContract, filters: Int32Array): Promise<Int32Array> =>
      (await target.launch(contract, { ...this.shared, parts, filters }, this.dimensions)).filters as Int32Array;
    const bins = await launch(sampleBins, new Int32Array(this.rows.length * FILTER_WORDS).fill(-7));
    const candidates = await launch(sampleCandidates, bins);
    return { bins, candidates, filtered: await launch(sampleFilter, candidates) };
  }

  /** Results of sample_best and sample_draw. */
  async drawn(target: Target): Promise<Int32Array> {
    const parts = await this.best(target);
    const filters = (await this.filters(target, parts)).filtered;
    const values = { ...this.shared, row_position: this.rowPosition, parts, filters };
    return (await target.launch(sampleDraw, values, this.dimensions)).parts as Int32Array;
  }

  /** The tokens that the three kernels choose, and each slot's last token. */
  async pick(target: Target): Promise<{ readonly tokens: number[]; readonly lastTokens: number[] }> {
    const { sample_row, row_slot, slots, slot_words } = this.shared;
    const values = { sample_row, row_slot, slots, slot_words, parts: await this.drawn(target) };
    const output = new Int32Array(this.rows.length * OUTPUT_WORDS).fill(-9);
    const result = await target.launch(samplePick, { ...values, output, output_words: OUTPUT_WORDS }, this.dimensions);
    return {
      tokens: this.rows.map((_, i) => result.output![i * OUTPUT_WORDS]!),
      lastTokens: this.rows.map((_, i) => result.slots![(this.rows.length - 1 - i) * this.slotWords]!),
    };
  }

  /** Results of copy_adjusted for a copy of nothing but -1. */
  async copied(target: Target): Promise<Float32Array> {
    const adjusted = this.adjusted.slice().fill(-1);
    return (await target.launch(copyAdjusted, { ...this.shared, adjusted }, this.dimensions)).adjusted as Float32Array;
  }
}
