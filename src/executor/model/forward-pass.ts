import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import { bufferFrom, type Device, type DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import { LaunchPlanRecorder, type StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from './kv-cache.js';
import type { Limits } from './limits.js';
import { type Activation, Linear, type Rows } from './linear.js';
import { BIAS_ENTRIES, type SlotArena, slotArena } from './slot-layout.js';
import { StepTables } from './step-tables.js';
import type { Matrix } from './weights.js';

/** Index of each step count in the counts that a step brings to its plan. */
export const COUNT_TOKENS = 0;
/** Rows of logits: those that a token is drawn from, then those of prompts. */
export const COUNT_SAMPLES = 1;
export const COUNT_WRITES = 2;
/** Splits of ATTENTION_SPLIT positions that the longest context of the step has. */
export const COUNT_SPLITS = 3;
export const COUNT_DRAWS = 4;
export const COUNT_PROMPT_ROWS = 5;
/** How many there are. */
export const STEP_COUNTS = 6;

/** Weights of one attention layer. */
export interface AttentionWeights {
  readonly norm: DeviceBuffer;
  readonly q: Matrix;
  readonly k: Matrix;
  readonly v: Matrix;
  readonly output: Matrix;
  /** Of q, k and v. */
  readonly biases?: readonly [DeviceBuffer, DeviceBuffer, DeviceBuffer];
}

/** Weights of one SwiGLU MLP. */
export interface MlpWeights {
  readonly norm: DeviceBuffer;
  readonly gate: Matrix;
  readonly up: Matrix;
  readonly down: Matrix;
}

/** Rotations of each position, and which elements they turn together: (2j, 2j + 1) or (j, j + rotary / 2). */
export interface Rope {
  readonly cosine: DeviceBuffer;
  readonly sine: DeviceBuffer;
  readonly pairing: 'adjacent' | 'halves';
}

/**
 * Device memory of a forward pass and the vocabulary in which a model file describes it. Each method records the
 * launches of one part of a layer; the residual stream is f32 everywhere.
 */
export class ForwardPass {
  /** The residual stream, `[max_step_tokens, hidden]`. */
  private readonly x: DeviceBuffer;
  /** The normalized residual stream, the same shape. */
  private readonly normed: DeviceBuffer;
  /** `[max_step_tokens, heads + 2 * kv_heads, head_dim]` */
  private readonly qkv: DeviceBuffer;
  /** `[max_step_tokens, heads, head_dim]` */
  private readonly attended: DeviceBuffer;
  /** `[max_step_tokens, 2, ffn]` */
  private readonly gateUp: DeviceBuffer;
  /** `[max_step_tokens, ffn]` */
  private readonly activated: DeviceBuffer;
  /** The residual stream of the sampled rows, `[max_sequences, hidden]`. */
  private readonly sampled: DeviceBuffer;
  /** `[max_sequences, vocabulary]` */
  readonly logits: DeviceBuffer;
  /** The logits that tokens are drawn from: penalized and biased. The same shape. */
  private readonly adjusted: DeviceBuffer;
  /** 0, 1, 2, ...: as many as there are sequences. */
  private readonly everySample: DeviceBuffer;
  /** The {@link SlotArena}; it begins with the slots, `[slots, slot_words]`. */
  readonly slots: DeviceBuffer;
  private readonly arena: SlotArena;
  readonly tables: StepTables;

  private readonly memory: DeviceScope;
  private readonly plan: LaunchPlanRecorder;
  private readonly linear: Linear;
  private readonly tokens: Rows;
  private readonly samples: Rows;
  private readonly draws: StepCount;
  private readonly slotWords: number;
  private readonly slotDims: { readonly slot_count: number };

  constructor(
    private readonly device: Device,
    readonly model: ModelParameters,
    readonly limits: Limits,
    readonly cache: KvCache,
  ) {
    const { maxStepTokens: rows, maxSequences } = limits;
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, vocabularySize } = model;
    this.memory = new DeviceScope(device);
    const f32 = (elements: number) => this.memory.allocate('f32', elements);
    this.arena = slotArena(limits);
    this.slotWords = this.arena.slotWords;
    this.slotDims = { slot_count: this.arena.slots };
    this.x = f32(rows * hiddenSize);
    this.normed = f32(rows * hiddenSize);
    this.qkv = f32(rows * (heads + 2 * kvHeads) * headDim);
    this.attended = f32(rows * heads * headDim);
    this.gateUp = f32(rows * 2 * ffnSize);
    this.activated = f32(rows * ffnSize);
    this.sampled = f32(maxSequences * hiddenSize);
    this.logits = f32(maxSequences * vocabularySize);
    this.adjusted = f32(maxSequences * vocabularySize);
    this.everySample = this.memory.upload(Int32Array.from({ length: maxSequences }, (_, i) => i));
    this.slots = this.memory.upload(new Int32Array(this.arena.words));
    this.tables = new StepTables(this.memory, limits);
    this.plan = new LaunchPlanRecorder(device, STEP_COUNTS);
    this.linear = new Linear(
      device,
      this.memory,
      this.plan,
      rows,
      Math.max(hiddenSize, heads * headDim, ffnSize),
      hiddenSize,
    );
    this.tokens = { count: { index: COUNT_TOKENS, max: rows }, present: this.tables.at('tokens') };
    this.samples = { count: { index: COUNT_SAMPLES, max: maxSequences }, present: this.tables.at('samples') };
    const writes: StepCount = { index: COUNT_WRITES, max: this.tables.maxWrites };
    this.draws = { index: COUNT_DRAWS, max: maxSequences };
    this.plan.launch(
      kernels.slotWrite,
      { slots: this.slots, writes: this.tables.at('writePairs'), count: this.tables.at('writes') },
      { ...this.slotDims, slot_words: this.slotWords, writes },
    );
    this.plan.captureFromHere();
  }

  /** Gives back everything but the KV cache. The plan must not run again. */
  release(): void {
    this.memory.release();
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
    const dims = { ...this.slotDims, vocabulary: table.rows, tokens: this.tokens.count };
    if (kernels.isBlockType(table.type)) {
      const blocks = table.columns / kernels.blockFormat(table.type).blockElements;
      this.plan.launch(kernels.embeddingGatherQuantized(table.type), values, { ...dims, blocks });
    } else {
      this.plan.launch(kernels.embeddingGather(table.type), values, dims);
    }
  }

  /** x += output · attention(rope(q · n), rope(k · n), v · n), n = rms_norm(x); k and v go to the layer's cache. */
  attention(layer: number, weights: AttentionWeights, rope: Rope): void {
    const { q, k, v, output, biases } = weights;
    const stride = q.rows + k.rows + v.rows;
    this.linear.multiplyEach([q, k, v], this.normalized(weights.norm, [q, k, v]), this.qkv);
    if (biases !== undefined) {
      // The three lie apart in the file and side by side in qkv: joined, one launch adds them.
      const joined = Float32Array.from(biases.flatMap((part) => [...this.device.readF32(part)]));
      const bias = this.memory.upload(joined);
      this.plan.launch(kernels.biasAdd, { y: this.qkv, bias, out: stride }, { rows: this.tokens.count });
    }
    this.attend(layer, rope);
    this.linear.addTo(this.x, output, { columns: q.rows, rows: this.tokens, forms: { f32: this.attended } });
  }

  /** x += down · (silu(gate · n) * (up · n)), n = rms_norm(x) */
  mlp({ norm, gate, up, down }: MlpWeights): void {
    const input = this.normalized(norm, [gate, up]);
    this.linear.addTo(this.x, down, this.linear.swiglu(gate, up, input, down, this.gateUp, this.activated));
  }

  /** Norm and output projection of the sampled rows, the draw of their tokens, and the log probabilities asked for. */
  sampleLogits(norm: DeviceBuffer, outputMatrix: Matrix): void {
    const { hiddenSize, vocabularySize, rmsNormEpsilon } = this.model;
    const sampleRow = this.tables.at('sampleRow');
    const rowSlot = this.tables.at('rowSlot');
    this.plan.launch(
      kernels.gatherRows,
      { x: this.x, y: this.sampled, index: sampleRow, hidden: hiddenSize },
      { tokens: this.tokens.count, samples: this.samples.count },
    );
    const input = this.linear.normalized(this.sampled, norm, this.normed, rmsNormEpsilon, this.samples, [outputMatrix]);
    this.linear.multiply(outputMatrix, input, { y: this.logits, stride: vocabularySize });
    this.adjustLogits();
    const shared = { slots: this.slots, slot_words: this.slotWords, row_slot: rowSlot, sample_row: sampleRow };
    const dims = { ...this.slotDims, samples: this.draws, tokens: this.tokens.count };
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
      { samples: this.samples.count, prompt_rows: { index: COUNT_PROMPT_ROWS, max: this.limits.maxSequences } },
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
    const dims = { ...this.slotDims, samples: this.draws, tokens: this.tokens.count };
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

  /** rms_norm(x) */
  private normalized(weight: DeviceBuffer, matrices: readonly Matrix[]): Activation {
    return this.linear.normalized(this.x, weight, this.normed, this.model.rmsNormEpsilon, this.tokens, matrices);
  }

  /** Rotates q and k, appends k and v to the layer's cache, and attends: qkv → attended. */
  private attend(layer: number, rope: Rope): void {
    const { heads, kvHeads, headDim, ropeDimensions } = this.model;
    const { k, v } = this.cache.layer(layer);
    const rows = {
      row_position: this.tables.at('rowPosition'),
      row_slot: this.tables.at('rowSlot'),
      slots: this.slots,
      slot_words: this.slotWords,
    };
    const dims = { ...this.slotDims, tokens: this.tokens.count, blocks: this.cache.blocks };
    this.plan.launch(
      kernels.ropeKvAppend(this.cache.type),
      {
        qkv: this.qkv,
        k_cache: k,
        v_cache: v,
        cosine: rope.cosine,
        sine: rope.sine,
        ...rows,
        heads,
        kv_heads: kvHeads,
        head_dim: headDim,
        rotary: ropeDimensions,
        adjacent: rope.pairing === 'adjacent' ? 1 : 0,
      },
      { ...dims, max_position: this.limits.maxContext, half_rotary: ropeDimensions / 2 },
    );
    this.plan.launch(
      kernels.attentionPaged(this.cache.type, headDim),
      {
        qkv: this.qkv,
        k_cache: k,
        v_cache: v,
        out: this.attended,
        ...rows,
        heads,
        kv_heads: kvHeads,
        scale: 1 / Math.sqrt(headDim),
      },
      dims,
    );
  }

  /** Ends the recording. @returns the plan's number on the device */
  finish(): number {
    return this.plan.finish();
  }

  /** The kernels of the plan, in order. */
  get kernels(): readonly string[] {
    return this.plan.kernels;
  }
}
