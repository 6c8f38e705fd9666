import { RocmForgeError } from '../../shared/errors.js';
import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import { bufferFrom, type Device, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import { LaunchPlanRecorder, type StepCount } from '../kernels/launch-plan.js';
import type { Limits } from './limits.js';
import { BIAS_ENTRIES, type SlotArena, slotArena } from './slot-layout.js';
import { StepTables } from './step-tables.js';
import type { Matrix } from './weights.js';

/** Index of each step count in the counts that a step brings to its plan. */
export const COUNT_TOKENS = 0;
/** Rows of logits: those that a token is drawn from, then those of prompts. */
export const COUNT_SAMPLES = 1;
export const COUNT_WRITES = 2;
export const COUNT_DRAWS = 3;
export const COUNT_PROMPT_ROWS = 4;
/** How many there are. */
export const STEP_COUNTS = 5;

/** Keys and values of one layer: `[kv_blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]`. */
interface LayerCache {
  readonly k: DeviceBuffer;
  readonly v: DeviceBuffer;
}

/**
 * Device memory of a forward pass and the vocabulary in which a model file describes it. Each method records the
 * launches of one layer operation; the residual stream is f32 everywhere.
 */
export class ForwardPass {
  /** The residual stream, `[max_step_tokens, hidden]`. */
  readonly x: DeviceBuffer;
  /** The normalized residual stream, the same shape. */
  readonly normed: DeviceBuffer;
  /** `[max_step_tokens, heads + 2 * kv_heads, head_dim]` */
  readonly qkv: DeviceBuffer;
  /** `[max_step_tokens, heads, head_dim]` */
  readonly attention: DeviceBuffer;
  /** `[max_step_tokens, 2, ffn]` */
  readonly gateUp: DeviceBuffer;
  /** `[max_step_tokens, ffn]` */
  readonly activation: DeviceBuffer;
  /** What a block adds to the residual stream, `[max_step_tokens, hidden]`. */
  readonly delta: DeviceBuffer;
  /** The input of a linear layer of quantized weights, `[max_step_tokens, in / 32, Q8_BLOCK_BYTES]`. */
  private readonly quantized: DeviceBuffer;
  /** What `quantized` was made of, until that changes. */
  private quantizedFrom: DeviceBuffer | undefined;
  /** `[max_sequences, vocabulary]` */
  readonly logits: DeviceBuffer;
  /** The logits that tokens are drawn from: penalized and biased. The same shape. */
  private readonly adjusted: DeviceBuffer;
  /** 0, 1, 2, ...: as many as there are sequences. */
  private readonly everySample: DeviceBuffer;
  /** The {@link SlotArena}; it begins with the slots, `[max_sequences, slot_words]`. */
  readonly slots: DeviceBuffer;
  private readonly arena: SlotArena;
  readonly tables: StepTables;
  readonly kvBytes: number;

  private readonly caches: readonly LayerCache[];
  private readonly plan: LaunchPlanRecorder;
  private readonly tokens: StepCount;
  private readonly samples: StepCount;
  private readonly draws: StepCount;
  private readonly slotWords: number;
  private readonly slotDims: { readonly slot_count: number };

  constructor(
    private readonly device: Device,
    readonly model: ModelParameters,
    readonly limits: Limits,
  ) {
    const { maxStepTokens: rows, maxSequences } = limits;
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, vocabularySize } = model;
    if (!kernels.HEAD_DIMS.includes(headDim)) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `head_dim ${headDim} is not built; built are ${kernels.HEAD_DIMS.join(', ')}`,
      );
    }
    this.arena = slotArena(limits);
    this.slotWords = this.arena.slotWords;
    this.slotDims = { slot_count: maxSequences };
    this.x = device.allocate('f32', rows * hiddenSize);
    this.normed = device.allocate('f32', rows * hiddenSize);
    this.qkv = device.allocate('f32', rows * (heads + 2 * kvHeads) * headDim);
    this.attention = device.allocate('f32', rows * heads * headDim);
    this.gateUp = device.allocate('f32', rows * 2 * ffnSize);
    this.activation = device.allocate('f32', rows * ffnSize);
    this.delta = device.allocate('f32', rows * hiddenSize);
    const widest = Math.max(hiddenSize, heads * headDim, ffnSize);
    this.quantized = device.allocate('u8', rows * Math.ceil(widest / kernels.Q8_BLOCK) * kernels.Q8_BLOCK_BYTES);
    this.logits = device.allocate('f32', maxSequences * vocabularySize);
    this.adjusted = device.allocate('f32', maxSequences * vocabularySize);
    this.everySample = device.upload(Int32Array.from({ length: maxSequences }, (_, i) => i));
    this.slots = device.upload(new Int32Array(this.arena.words));
    this.tables = new StepTables(device, limits);
    const cacheElements = limits.kvBlocks * kvHeads * kernels.KV_BLOCK_TOKENS * headDim;
    this.caches = Array.from({ length: model.layers }, () => ({
      k: device.allocate(limits.kvCacheType, cacheElements),
      v: device.allocate(limits.kvCacheType, cacheElements),
    }));
    this.kvBytes = 2 * model.layers * cacheElements * (limits.kvCacheType === 'f32' ? 4 : 2);
    this.plan = new LaunchPlanRecorder(device, STEP_COUNTS);
    this.tokens = { index: COUNT_TOKENS, max: rows };
    this.samples = { index: COUNT_SAMPLES, max: maxSequences };
    this.draws = { index: COUNT_DRAWS, max: maxSequences };
    this.plan.launch(
      kernels.slotWrite,
      { slots: this.slots, writes: this.tables.at('writePairs'), count: this.tables.at('writes') },
      { ...this.slotDims, slot_words: this.slotWords, writes: { index: COUNT_WRITES, max: this.tables.maxWrites } },
    );
  }

  /** x = table[token of each row] */
  embed(table: Matrix): void {
    const values = {
      table: table.buffer,
      y: this.x,
      row_token: this.tables.at('rowToken'),
      row_slot: this.tables.at('rowSlot'),
      slots: this.slots,
      slot_words: this.slotWords,
      hidden: table.columns,
    };
    const dims = { ...this.slotDims, vocabulary: table.rows, tokens: this.tokens };
    if (kernels.isBlockType(table.type)) {
      const blocks = table.columns / kernels.blockFormat(table.type).blockElements;
      this.plan.launch(kernels.embeddingGatherQuantized(table.type), values, { ...dims, blocks });
    } else {
      this.plan.launch(kernels.embeddingGather(table.type), values, dims);
    }
  }

  /** normed = rms_norm(x) */
  norm(weight: DeviceBuffer): void {
    this.changes(this.normed);
    this.plan.launch(
      kernels.rmsNorm,
      { x: this.x, weight, y: this.normed, hidden: this.model.hiddenSize, eps: this.model.rmsNormEpsilon },
      { rows: this.tokens },
    );
  }

  /** y[t] = weight · x[t] for each row; y's rows are `stride` elements apart and begin at `column`. */
  linear(weight: Matrix, x: DeviceBuffer, y: DeviceBuffer, stride = weight.rows, column = 0): void {
    this.matmul(weight, x, bufferFrom(y, column), stride, this.tokens, 'tokens');
  }

  /** q, k and v of each row, side by side in qkv, each with its bias where the model has them. */
  projectQkv(q: Matrix, k: Matrix, v: Matrix, biases?: readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer]): void {
    const stride = q.rows + k.rows + v.rows;
    this.linear(q, this.normed, this.qkv, stride);
    this.linear(k, this.normed, this.qkv, stride, q.rows);
    this.linear(v, this.normed, this.qkv, stride, q.rows + k.rows);
    if (biases !== undefined) {
      // The three lie apart in the file and side by side in qkv: joined, one launch adds them.
      const values = biases.flatMap((part) => [...this.device.readF32(part)]);
      const bias = this.device.upload(Float32Array.from(values));
      this.plan.launch(kernels.biasAdd, { y: this.qkv, bias, out: stride }, { rows: this.tokens });
    }
  }

  /**
   * Rotates q and k, appends k and v to the layer's cache, and attends: qkv → attention.
   *
   * @param pairing which elements RoPE rotates together: (2j, 2j + 1) or (j, j + rotary / 2)
   */
  attend(
    layer: number,
    rope: { readonly cosine: DeviceBuffer; readonly sine: DeviceBuffer },
    pairing: 'adjacent' | 'halves',
  ): void {
    const { heads, kvHeads, headDim, ropeDimensions } = this.model;
    const cache = this.caches[layer] as LayerCache;
    const rows = {
      row_position: this.tables.at('rowPosition'),
      row_slot: this.tables.at('rowSlot'),
      slots: this.slots,
      slot_words: this.slotWords,
    };
    const dims = { ...this.slotDims, tokens: this.tokens, blocks: this.limits.kvBlocks };
    this.plan.launch(
      kernels.ropeKvAppend(this.limits.kvCacheType),
      {
        qkv: this.qkv,
        k_cache: cache.k,
        v_cache: cache.v,
        cosine: rope.cosine,
        sine: rope.sine,
        ...rows,
        heads,
        kv_heads: kvHeads,
        head_dim: headDim,
        rotary: ropeDimensions,
        adjacent: pairing === 'adjacent' ? 1 : 0,
      },
      { ...dims, max_position: this.limits.maxContext, half_rotary: ropeDimensions / 2 },
    );
    this.changes(this.attention);
    this.plan.launch(
      kernels.attentionPaged(this.limits.kvCacheType, headDim),
      {
        qkv: this.qkv,
        k_cache: cache.k,
        v_cache: cache.v,
        out: this.attention,
        ...rows,
        heads,
        kv_heads: kvHeads,
        scale: 1 / Math.sqrt(headDim),
      },
      dims,
    );
  }

  /** delta = down · (silu(gate · normed) * (up · normed)) */
  swigluMlp(gate: Matrix, up: Matrix, down: Matrix): void {
    const ffn = gate.rows;
    this.linear(gate, this.normed, this.gateUp, 2 * ffn);
    this.linear(up, this.normed, this.gateUp, 2 * ffn, ffn);
    this.changes(this.activation);
    this.plan.launch(kernels.swiglu, { gate_up: this.gateUp, y: this.activation, ffn }, { rows: this.tokens });
    this.linear(down, this.activation, this.delta);
  }

  /** x += delta */
  addResidual(): void {
    this.plan.launch(
      kernels.residualAdd,
      { x: this.x, y: this.delta, hidden: this.model.hiddenSize },
      { rows: this.tokens },
    );
  }

  /** Norm and output projection of the sampled rows, the draw of their tokens, and the log probabilities asked for. */
  sampleLogits(norm: DeviceBuffer, outputMatrix: Matrix): void {
    const { hiddenSize, vocabularySize, rmsNormEpsilon } = this.model;
    const sampleRow = this.tables.at('sampleRow');
    const rowSlot = this.tables.at('rowSlot');
    // delta and normed are free by now: the sampled rows are gathered there.
    this.plan.launch(
      kernels.gatherRows,
      { x: this.x, y: this.delta, index: sampleRow, hidden: hiddenSize },
      { tokens: this.tokens, samples: this.samples },
    );
    this.changes(this.normed);
    this.plan.launch(
      kernels.rmsNorm,
      { x: this.delta, weight: norm, y: this.normed, hidden: hiddenSize, eps: rmsNormEpsilon },
      { rows: this.samples },
    );
    this.matmul(outputMatrix, this.normed, this.logits, vocabularySize, this.samples, 'samples');
    this.adjustLogits();
    const shared = { slots: this.slots, slot_words: this.slotWords, row_slot: rowSlot, sample_row: sampleRow };
    const dims = { ...this.slotDims, samples: this.draws, tokens: this.tokens };
    this.plan.launch(
      kernels.sample,
      {
        ...shared,
        logits: this.adjusted,
        row_position: this.tables.at('rowPosition'),
        output: this.tables.output,
        output_words: kernels.OUTPUT_WORDS,
        vocabulary: vocabularySize,
      },
      dims,
    );
    const { historyOffset, historyEntries } = this.arena;
    const history = bufferFrom(this.slots, historyOffset);
    this.plan.launch(kernels.tokenHistory, { ...shared, history, entries: historyEntries }, dims);
    this.plan.launch(
      kernels.logSoftmaxTop,
      {
        ...shared,
        logits: this.logits,
        output: this.tables.output,
        top_max: kernels.TOP_LOGPROBS_MAX,
        vocabulary: vocabularySize,
      },
      dims,
    );
    this.plan.launch(
      kernels.promptLogprobs,
      {
        logits: this.logits,
        draws: this.tables.at('draws'),
        target: this.tables.at('promptTarget'),
        output: this.tables.output,
        top_max: kernels.TOP_LOGPROBS_MAX,
        vocabulary: vocabularySize,
      },
      { samples: this.samples, prompt_rows: { index: COUNT_PROMPT_ROWS, max: this.limits.maxSequences } },
    );
  }

  /** adjusted = logits, penalized and biased as each slot says; log probabilities are those of the raw logits. */
  private adjustLogits(): void {
    const vocabulary = this.model.vocabularySize;
    const { historyOffset, historyEntries, biasOffset } = this.arena;
    this.plan.launch(
      kernels.gatherRows,
      { x: this.logits, y: this.adjusted, index: this.everySample, hidden: vocabulary },
      { tokens: this.limits.maxSequences, samples: this.draws },
    );
    const rows = { sample_row: this.tables.at('sampleRow'), row_slot: this.tables.at('rowSlot') };
    const dims = { ...this.slotDims, samples: this.draws, tokens: this.tokens };
    this.plan.launch(
      kernels.penalties,
      {
        ...rows,
        logits: this.adjusted,
        slots: this.slots,
        history: bufferFrom(this.slots, historyOffset),
        slot_words: this.slotWords,
        entries: historyEntries,
        vocabulary,
      },
      dims,
    );
    const biases = bufferFrom(this.slots, biasOffset);
    this.plan.launch(
      kernels.logitBias,
      { ...rows, logits: this.adjusted, biases, entries: BIAS_ENTRIES, vocabulary },
      dims,
    );
  }

  /** Ends the recording. @returns the plan's number on the device */
  finish(): number {
    return this.plan.finish();
  }

  private matmul(
    weight: Matrix,
    x: DeviceBuffer,
    y: DeviceBuffer,
    yStride: number,
    rows: StepCount,
    count: 'tokens' | 'samples',
  ): void {
    const tokens = this.tables.at(count);
    const [out, columns] = [weight.rows, weight.columns];
    if (kernels.isBlockType(weight.type)) {
      this.quantize(x, columns, rows);
      this.plan.launch(
        kernels.matmulQuantized(weight.type),
        {
          weight: weight.buffer,
          x: this.quantized,
          y,
          tokens,
          out,
          blocks: columns / kernels.blockFormat(weight.type).blockElements,
          y_stride: yStride,
        },
        { rows },
      );
    } else {
      this.plan.launch(
        kernels.matmul(weight.type),
        { weight: weight.buffer, x, y, tokens, out, in: columns, x_stride: columns, y_stride: yStride },
        { rows },
      );
    }
  }

  /** quantized = x in int8, unless it is that already: layers that share their input share this too. */
  private quantize(x: DeviceBuffer, columns: number, rows: StepCount): void {
    if (this.quantizedFrom === x) return;
    this.quantizedFrom = x;
    this.plan.launch(
      kernels.quantizeQ8,
      { x, y: this.quantized, in: columns },
      { rows, blocks: columns / kernels.Q8_BLOCK },
    );
  }

  /** Says that the next launch writes `buffer`. */
  private changes(buffer: DeviceBuffer): void {
    if (this.quantizedFrom === buffer) this.quantizedFrom = undefined;
  }
}
