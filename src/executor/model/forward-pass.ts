import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import { LaunchPlanRecorder, type StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from './kv-cache.js';
import type { Limits } from './limits.js';
import { type Activation, Linear, type Rows } from './linear.js';
import { firstRows, type Matrix } from './matrix.js';
import { type AttentionForm, type AttentionSplits, PagedAttention } from './paged-attention.js';
import { Sampling } from './sampling.js';
import { emptySlots, type SlotArena, slotArena } from './slot-layout.js';
import { COUNT_SAMPLES, COUNT_TOKENS, COUNT_WRITES, STEP_COUNTS } from './step-counts.js';
import { StepTables } from './step-tables.js';
import { UnfusedAttention } from './unfused-attention.js';

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
  /** The {@link SlotArena}; it begins with the slots, `[slots, slot_words]`. */
  readonly slots: DeviceBuffer;
  private readonly arena: SlotArena;
  readonly tables: StepTables;

  private readonly memory: DeviceScope;
  private readonly plan: LaunchPlanRecorder;
  private readonly linear: Linear;
  private readonly tokens: Rows;
  private readonly samples: Rows;
  private readonly sampling: Sampling;
  private readonly attentionForm: AttentionForm;
  private readonly slotWords: number;
  private readonly slotDims: { readonly slot_count: number };

  private readonly device: Device;

  /** @param within the scope that ends with it at the latest */
  constructor(
    within: DeviceScope,
    readonly model: ModelParameters,
    readonly limits: Limits,
    readonly cache: KvCache,
  ) {
    const { maxStepTokens: rows, maxSequences } = limits;
    const { hiddenSize, ffnSize, heads, kvHeads, headDim, vocabularySize } = model;
    const { device } = within;
    this.device = device;
    this.memory = within.child();
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
    this.slots = this.memory.upload(emptySlots(this.arena));
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
    const slots = { buffer: this.slots, arena: this.arena };
    this.sampling = new Sampling(device, this.memory, this.plan, this.tables, slots, limits, vocabularySize);
    const Attention = limits.attention === 'unfused' ? UnfusedAttention : PagedAttention;
    const { memory, plan, tables } = this;
    this.attentionForm = new Attention({ device, memory, plan, tables, slots, model, limits, cache });
    this.plan.launch(
      kernels.slotWrite,
      { slots: this.slots, writes: this.tables.at('writePairs'), count: this.tables.at('writes') },
      { ...this.slotDims, slot_words: this.slotWords, writes },
    );
    this.plan.captureFromHere();
  }

  /** Gives back everything but the KV cache, the plan too. */
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
    this.attentionForm.record(this.cache.layer(layer), rope, this.qkv, this.attended);
    this.linear.addTo(this.x, output, { columns: q.rows, rows: this.tokens, forms: { f32: this.attended } });
  }

  /** x += down · (silu(gate · n) * (up · n)), n = rms_norm(x) */
  mlp({ norm, gate, up, down }: MlpWeights): void {
    const input = this.normalized(norm, [gate, up]);
    this.linear.addTo(this.x, down, this.linear.swiglu(gate, up, input, down, this.gateUp, this.activated));
  }

  /** How attention is split among blocks, for graphs: {@link AttentionForm.splits}. */
  get splits(): AttentionSplits | undefined {
    return this.attentionForm.splits;
  }

  /** Norm and output projection of the sampled rows, the draw of their tokens, and the log probabilities asked for. */
  sampleLogits(norm: DeviceBuffer, outputMatrix: Matrix): void {
    const { hiddenSize, vocabularySize, rmsNormEpsilon } = this.model;
    this.plan.launch(
      kernels.gatherRows,
      { x: this.x, y: this.sampled, index: this.tables.at('sampleRow'), hidden: hiddenSize },
      { tokens: this.tokens.count, samples: this.samples.count },
    );
    // Rows that no token has are never computed: nothing can be sampled, nor counted among the likeliest, that has no text.
    const tokens = firstRows(outputMatrix, vocabularySize);
    const input = this.linear.normalized(this.sampled, norm, this.normed, rmsNormEpsilon, this.samples, [tokens]);
    this.linear.multiply(tokens, input, { y: this.logits, stride: vocabularySize });
    this.sampling.record(this.logits);
  }

  /** rms_norm(x) */
  private normalized(weight: DeviceBuffer, matrices: readonly Matrix[]): Activation {
    return this.linear.normalized(this.x, weight, this.normed, this.model.rmsNormEpsilon, this.tokens, matrices);
  }

  /** Ends the recording. @returns the plan's number on the device */
  finish(): number {
    return this.memory.plan(this.plan.finish());
  }

  /** The kernels of the plan, in order. */
  get kernels(): readonly string[] {
    return this.plan.kernels;
  }
}
