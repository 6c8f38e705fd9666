import { type Allocator, bufferFrom, type DeviceBuffer } from '../device/device.js';
import { OUTPUT_WORDS, POOL_WORDS, SLICE_WORDS } from '../kernels/index.js';
import type { Limits } from './limits.js';
import { slotArena } from './slot-layout.js';

/**
 * Words before the first output: how many activations were beyond f16's range since the model was loaded, which pass of a
 * tensor split was ended before its ranks had met, and padding.
 */
export const OUTPUT_HEADER = 16;
export const HEADER_ENDED = 1;

/** Words to a multiple of which parts of an answer are aligned: vectors of the device's loads and stores must not straddle. */
const ALIGNMENT = 64;

/** Slot writes of most steps: some prompts' histories or block tables at a time, not every slot's at its longest. */
const MAX_WRITES = 65_536;

/**
 * The small tables of one step, in one range of device memory so that one copy brings them all.
 *
 *   [counts 16] [row_token] [row_position] [row_slot] (max_step_tokens each) [sample_row max_sequences]
 *   [prompt_target 2 * max_sequences] [tiles 2 * max_step_tokens] [row_slice max_step_tokens] [slices SLICE_WORDS *
 *   max_sequences] [kept_rows 2 * max_sequences] [hidden_row max_hidden] [pools POOL_WORDS * max_sequences] [row_end
 *   max_step_tokens] [writes ...]; from row_slice to kept_rows only of models whose layers have states, row_end only of encoders
 *
 * All words are int32. Slot writes come last: only those a step has are copied.
 */
export class StepTables {
  readonly offsets: {
    readonly tokens: number;
    readonly samples: number;
    readonly writes: number;
    /** Rows of logits that a token is drawn from; the others, after them, are of prompts. */
    readonly draws: number;
    /** The number of the pass, where the devices of a tensor split meet in it. */
    readonly pass: number;
    /** Slices whose hidden states are pooled. */
    readonly pooled: number;
    readonly rowToken: number;
    readonly rowPosition: number;
    readonly rowSlot: number;
    /** Rows of the step whose logits are computed: those sampled, then those of prompts. */
    readonly sampleRow: number;
    /** Per row of logits: the prompt's next token, and how many of the likeliest are wanted. */
    readonly promptTarget: number;
    /** Pairs of first row and number of rows: consecutive positions of one slot. */
    readonly tiles: number;
    /** Index of each row's slice. */
    readonly rowSlice: number;
    /** Rows and states of each slice: `SLICE_WORDS` each. */
    readonly slices: number;
    /** Pairs of a row with a draft token and its replay row. */
    readonly keptRows: number;
    /** Rows of the step whose hidden states are returned as they are. */
    readonly hiddenRow: number;
    /** Slices whose hidden states are pooled: `POOL_WORDS` each. */
    readonly pools: number;
    /** The row behind the last one of each row's sequence. */
    readonly rowEnd: number;
    readonly writePairs: number;
  };
  /** (index, value) pairs that the tables hold. A step that has more writes the others before it; see `StepRunner`. */
  readonly maxWrites: number;
  readonly words: number;
  readonly device: DeviceBuffer;
  /** Words that a step's copy brings back: the header, and {@link output} behind it. */
  readonly answer: DeviceBuffer;
  /** `[max_sequences, OUTPUT_WORDS]` */
  readonly output: DeviceBuffer;
  /** Offsets of {@link scores}, {@link pooled} and {@link hidden} in {@link answer}, in words. */
  readonly scoresOffset: number;
  readonly pooledOffset: number;
  readonly hiddenOffset: number;
  /** The most hidden states that a step returns as they are: one a sequence, of an encoder one a row. */
  readonly maxHidden: number;
  /** Scores of pooled states, `[max_sequences, labels]` f32; they and what follows are copied only if a step has some. */
  readonly scores: DeviceBuffer;
  /** Pooled hidden states, `[max_sequences, hidden]` f32. */
  readonly pooled: DeviceBuffer;
  /** Hidden states after the output norm, `[max_hidden, hidden]` f32. */
  readonly hidden: DeviceBuffer;
  /** Value of {@link saturated} in the last answer, modulo 2³². */
  saturatedSoFar = 0;

  /** @param hiddenSize elements of a hidden state; 0: none are returned. @param labels scores of a pooled one */
  constructor(device: Allocator, limits: Limits, hiddenSize = 0, labels = 0) {
    const rows = 16;
    const { maxStepTokens, maxSequences, isRecurrent = false, isEncoder = false } = limits;
    this.maxHidden = isEncoder ? maxStepTokens : maxSequences;
    const slices = rows + 5 * maxStepTokens + 3 * maxSequences;
    const states = Number(isRecurrent);
    const hiddenRow = slices + states * (maxStepTokens + (SLICE_WORDS + 2) * maxSequences);
    const pools = hiddenRow + this.maxHidden;
    const rowEnd = pools + POOL_WORDS * maxSequences;
    this.offsets = {
      tokens: 0,
      samples: 1,
      writes: 2,
      draws: 3,
      pass: 4,
      pooled: 5,
      rowToken: rows,
      rowPosition: rows + maxStepTokens,
      rowSlot: rows + 2 * maxStepTokens,
      sampleRow: rows + 3 * maxStepTokens,
      promptTarget: rows + 3 * maxStepTokens + maxSequences,
      tiles: rows + 3 * maxStepTokens + 3 * maxSequences,
      rowSlice: slices,
      slices: slices + states * maxStepTokens,
      keptRows: slices + states * (maxStepTokens + SLICE_WORDS * maxSequences),
      hiddenRow,
      pools,
      rowEnd,
      writePairs: rowEnd + Number(isEncoder) * maxStepTokens,
    };
    this.maxWrites = Math.min(slotArena(limits).words, MAX_WRITES + 16 * maxSequences);
    this.words = this.offsets.writePairs + 2 * this.maxWrites;
    this.device = device.allocate('i32', this.words);
    const aligned = (words: number): number => Math.ceil(words / ALIGNMENT) * ALIGNMENT;
    this.scoresOffset = aligned(OUTPUT_HEADER + maxSequences * OUTPUT_WORDS);
    this.pooledOffset = aligned(this.scoresOffset + maxSequences * labels);
    this.hiddenOffset = aligned(this.pooledOffset + maxSequences * hiddenSize);
    this.answer = device.upload(new Int32Array(this.hiddenOffset + this.maxHidden * hiddenSize));
    const floats = (offset: number): DeviceBuffer => ({ ...bufferFrom(this.answer, offset), dtype: 'f32' });
    this.scores = floats(this.scoresOffset);
    this.pooled = floats(this.pooledOffset);
    this.hidden = floats(this.hiddenOffset);
    this.output = bufferFrom(this.answer, OUTPUT_HEADER);
  }

  /** `[1]`: where kernels count. */
  get saturated(): DeviceBuffer {
    return { ...this.answer, elements: 1 };
  }

  /** `[1]`: the pass in which ranks do not wait for each other any more. */
  get ended(): DeviceBuffer {
    return { ...bufferFrom(this.answer, HEADER_ENDED), elements: 1 };
  }

  /** The part of the tables that begins at one of {@link offsets}. */
  at(section: keyof StepTables['offsets']): DeviceBuffer {
    return bufferFrom(this.device, this.offsets[section]);
  }
}
