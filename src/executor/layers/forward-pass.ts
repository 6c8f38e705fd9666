// One file because it is one walk: what each value leaves behind is what the next one reads. How an operation is launched lies
// beside it.
import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import { type LaunchCondition, LaunchPlanRecorder, type Rows, type StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import { joined, type Matrix } from '../model/matrix.js';
import { Sampling, type Slots } from '../model/sampling.js';
import { emptySlots, neutralSlots, type SlotArena, SlotWord, slotArena } from '../model/slot-layout.js';
import {
  COUNT_GATHERED,
  COUNT_HIDDEN,
  COUNT_SAMPLES,
  COUNT_SINGLE_TOKEN,
  COUNT_TOKENS,
  COUNT_WRITES,
  STEP_COUNTS,
} from '../model/step-counts.js';
import { StepMasks } from '../model/step-masks.js';
import { StepTables } from '../model/step-tables.js';
import type { MatrixRef, VectorRef } from '../model/tensors.js';
import {
  type Attention,
  columnsOf,
  type DeltaNet,
  type Experts,
  type Gated,
  type LatentAttention,
  type Linear,
  type Mamba,
  type Norm,
  type PredictionEntry,
  type RankSum,
  type Rescaled,
  type Residual,
  type RowGated,
  x as residual,
  type ShortConv,
  type StageGraph,
  type Sum,
  type Value,
  valuesOf,
} from '../model/values.js';
import { AllReduce } from './all-reduce.js';
import { AttentionLayers } from './attention-layers.js';
import { ExpertLayers } from './expert-layers.js';
import {
  ADDED_NORM,
  ADDED_PRODUCT,
  type Fusion,
  type FusionSite,
  fusionsOn,
  GATED_FUSIONS,
  GATED_PRODUCT,
  NORM_FUSIONS,
  SINGLE_TOKEN,
} from './fusions.js';
import { LatentAttentionLayers } from './latent-attention.js';
import { LayerInputLayers } from './layer-inputs.js';
import { MambaLayers } from './mamba-layers.js';
import type { AttentionSplits } from './paged-attention.js';
import { type Activation, type ActivationEncoding, asEncoding, bothOf, Products } from './products.js';
import type { PlanParts, RecordedModel, Stream } from './recorded-model.js';
import { QueryGates, RecurrentLayers } from './recurrent-layers.js';
import { ShortConvLayers } from './short-conv-layers.js';
import { type NormedRow, SingleToken } from './single-token.js';
import type { ProductPart } from './single-token-matrices.js';

/**
 * A model's graph, or a stage of it, as launches. Values are computed in the order in which the residual stream takes them, each into memory
 * of its kind; the residual stream is f32 everywhere.
 */
export class ForwardPass {
  /** The residual stream, `[max_step_tokens, hidden]`: what a stage receives and what it sends. */
  readonly x: DeviceBuffer;
  /** `[max_step_tokens, heads + 2 * kv_heads, head_dim]` */
  private readonly qkv: DeviceBuffer;
  /** `[max_step_tokens, 2, ffn]` */
  private readonly gateUp: DeviceBuffer;
  /** Buffers of normalized and of gated rows, each in f32 and in the encoding that its matrices take. */
  private readonly normed: Record<'f32' | 'other', DeviceBuffer>;
  private readonly gated: Record<'f32' | 'other', DeviceBuffer>;
  /** The norm that is in `normed`, while the residual stream is what it was taken of. */
  private latestNorm: { readonly value: Norm; readonly input: Activation } | undefined;
  /** Values that are not added to the residual stream by the launch that computes them, and inputs of norms. */
  private readonly delta: DeviceBuffer;
  /** The second part of a sum. */
  private readonly branch: DeviceBuffer;
  /** Gates of rows, `[max_step_tokens]`. */
  private readonly gates: DeviceBuffer;
  /** The residual stream of the sampled rows, `[max_sequences, hidden]`. */
  private readonly sampled: DeviceBuffer;
  /** `[max_sequences, vocabulary]`; of a stage that is not the last nothing. */
  readonly logits: DeviceBuffer;
  /** Undefined of a stage that is not the last. */
  sampling: Sampling | undefined;
  /** The token that each slot sampled last, `[slots]` i32: what the last stage of several sends to the first. */
  readonly lastTokens: DeviceBuffer | undefined;
  /** Memory in which a stage receives messages, each as large as what is received. */
  readonly receiveBuffers: readonly DeviceBuffer[];
  /** The {@link SlotArena}; it begins with the slots, `[slots, slot_words]`. */
  readonly slots: DeviceBuffer;
  readonly tables: StepTables;
  readonly masks: StepMasks;
  readonly model: ModelParameters;
  readonly limits: Limits;
  readonly cache: KvCache;

  private readonly device: Device;
  private readonly arena: SlotArena;
  private readonly memory: DeviceScope;
  private readonly plan: LaunchPlanRecorder;
  private readonly products: Products;
  private readonly tokens: Rows;
  private readonly samples: Rows;
  private readonly fusions: ReadonlySet<Fusion>;
  /** Undefined where steps of one row are launched as all others. */
  private readonly singleToken: SingleToken | undefined;
  private readonly attentions: AttentionLayers;
  /** Undefined where the model has no experts. */
  private readonly experts: ExpertLayers | undefined;
  /** Undefined where the model has no such layers. */
  private readonly recurrent: RecurrentLayers | undefined;
  private readonly shortConvs: ShortConvLayers | undefined;
  private readonly mambas: MambaLayers | undefined;
  private readonly latents: LatentAttentionLayers | undefined;
  private readonly queryGates: QueryGates | undefined;
  private readonly layerInputs: LayerInputLayers | undefined;
  /** Undefined where the model is no shard. */
  private readonly ranks: AllReduce | undefined;

  /** @param within the scope that ends with it at the latest */
  constructor(
    within: DeviceScope,
    private readonly recorded: RecordedModel,
  ) {
    const { graph, parameters, limits, cache, stage, without = [] } = recorded;
    const { maxStepTokens: rows, maxSequences } = limits;
    const { hiddenSize, vocabularySize } = parameters;
    this.model = parameters;
    this.limits = limits;
    this.cache = cache;
    this.device = within.device;
    this.memory = within.child();
    this.fusions = fusionsOn(this.device.deviceClass, without);
    const f32 = (elements: number) => this.memory.allocate('f32', elements);
    const all = [...valuesOf(graph)];
    const widest = (kind: Value['kind'], part = (value: Value) => value) =>
      Math.max(1, ...all.filter((value) => value.kind === kind).map((value) => columnsOf(part(value), hiddenSize)));
    this.arena = slotArena(limits);
    this.x = f32(rows * hiddenSize);
    const qkvColumns = all.map((value) =>
      value.kind === 'attention' ? (value.heads + 2 * value.kvHeads) * value.headDim : 1,
    );
    this.qkv = f32(rows * Math.max(1, ...qkvColumns));
    this.gateUp = f32(rows * 2 * widest('gated'));
    // It is opened where something is computed there.
    const host = all.some((value) => value.kind === 'experts' && recorded.weights.isOnHost(value)) && this.device.host;
    this.plan = new LaunchPlanRecorder(this.device, STEP_COUNTS, host || undefined);
    const attended = widest('attention');
    const joined = graph.entry === undefined ? 0 : 2 * hiddenSize;
    const inputs = (
      ['norm', 'gated', 'delta-net', 'short-conv', 'mamba', 'layer-gated', 'latent-attention'] as const
    ).map((kind) => widest(kind));
    const widestInput = Math.max(hiddenSize, attended, joined, ...inputs);
    this.tables = new StepTables(this.memory, limits, this.hiddenSizeOf(graph));
    this.masks = new StepMasks(this.memory, limits, vocabularySize);
    const { saturated } = this.tables;
    this.products = new Products(this.device, this.memory, this.plan, rows, widestInput, saturated);
    this.normed = this.products.roomInBoth(this.memory, rows, widest('norm'));
    this.gated = this.products.roomInBoth(this.memory, rows, widest('gated'));
    this.delta = f32(rows * Math.max(hiddenSize, widest('norm')));
    this.branch = f32(rows * widest('sum'));
    this.gates = f32(rows);
    const outputs = graph.logits === undefined ? 0 : maxSequences;
    this.sampled = f32(outputs * hiddenSize);
    this.logits = f32(outputs * vocabularySize);
    const isEnd = graph.embedding !== undefined || graph.logits !== undefined;
    if (stage !== undefined && isEnd) this.lastTokens = this.memory.upload(new Int32Array(this.arena.slots));
    const arrives = graph.embedding === undefined ? this.x : this.lastTokens;
    this.receiveBuffers = Array.from({ length: stage?.receiveBuffers ?? 0 }, () =>
      this.memory.allocate(arrives?.dtype ?? 'f32', arrives?.elements ?? 0),
    );
    this.slots = recorded.slots ?? this.memory.upload(emptySlots(this.arena));
    this.tokens = { count: { index: COUNT_TOKENS, max: rows }, present: this.tables.at('tokens') };
    this.samples = { count: { index: COUNT_SAMPLES, max: maxSequences }, present: this.tables.at('samples') };
    if (this.fusions.has(SINGLE_TOKEN))
      this.singleToken = new SingleToken(this.plan, this.memory, all, hiddenSize, this.tokens, this.products.columns);
    const slots = { buffer: this.slots, arena: this.arena };
    const { device, memory, plan, tables, fusions } = this;
    const site = { device, memory, plan, tables, slots, limits, cache, fusions };
    this.attentions = new AttentionLayers(site, recorded, this.products, this.tokens, attended);
    const { weights } = recorded;
    const own = { ...site, weights };
    /** Recorder of values of a kind, if the model has any. */
    const forEach = <V, T>(values: readonly V[], make: (values: readonly V[]) => T): T | undefined =>
      values.length === 0 ? undefined : make(values);
    this.experts = forEach(
      all.filter((value): value is Experts => value.kind === 'experts'),
      (values) => new ExpertLayers(own, values, this.products, this.tokens),
    );
    this.recurrent = forEach(
      all.filter((value): value is DeltaNet => value.kind === 'delta-net'),
      (values) => new RecurrentLayers(own, values, this.tokens),
    );
    this.shortConvs = forEach(
      all.filter((value): value is ShortConv => value.kind === 'short-conv'),
      (values) => new ShortConvLayers(own, values, this.tokens),
    );
    this.mambas = forEach(
      all.filter((value): value is Mamba => value.kind === 'mamba'),
      (values) => new MambaLayers(own, values, this.tokens),
    );
    this.latents = forEach(
      all.filter((value): value is LatentAttention => value.kind === 'latent-attention'),
      (values) => new LatentAttentionLayers(site, recorded, values, this.tokens),
    );
    this.queryGates = forEach(
      all.filter((value): value is Attention => value.kind === 'attention' && value.isGated === true),
      (values) => new QueryGates(plan, memory, values, this.tokens),
    );
    if (graph.layerInputs !== undefined)
      this.layerInputs = new LayerInputLayers(memory, plan, weights, graph.layerInputs, this.tokens);
    if (recorded.rank !== undefined) this.ranks = new AllReduce(plan, tables, recorded.rank, graph);
    this.record(graph);
  }

  /** Gives back everything but the KV cache, the plan too. */
  release(): void {
    this.memory.release();
  }

  /** Elements of a hidden state that steps may return; 0: none. */
  get returnedHiddenSize(): number {
    return this.hiddenSizeOf(this.recorded.graph);
  }

  /** Split of attention among blocks, for graphs: {@link AttentionVariant.splits}. */
  get splits(): AttentionSplits | undefined {
    return this.attentions.splits;
  }

  /** Ends the recording. @returns the plan's number on the device */
  finish(): number {
    return this.memory.plan(this.plan.finish());
  }

  /** The same plan in two parts, for steps whose rows are masked: up to the logits, and from them on. */
  finishParts(): PlanParts {
    const forward = this.memory.plan(this.plan.finishPart('first'));
    return { forward, sampling: this.memory.plan(this.plan.finishPart('second')) };
  }

  /** The kernels of the plan, in order. */
  get kernels(): readonly string[] {
    return this.plan.kernels;
  }

  private record(graph: StageGraph): void {
    const { embedding, embeddingScale, additions, logits } = graph;
    const writes: StepCount = { index: COUNT_WRITES, max: this.tables.maxWrites };
    const { entry } = graph;
    const { hiddenRows } = this.recorded;
    // The slots of a prediction block are the model's, which are written already.
    if (entry === undefined) {
      this.plan.launch(
        kernels.slotWrite,
        { slots: this.slots, writes: this.tables.at('writePairs'), count: this.tables.at('writes') },
        { slot_count: this.arena.slots, slot_words: this.arena.slotWords, writes },
      );
    }
    this.plan.captureFromHere();
    if (entry !== undefined) this.enter(entry, this.recorded.weights.table(embedding as MatrixRef));
    else if (embedding !== undefined) this.embed(this.recorded.weights.table(embedding), this.x);
    if (embeddingScale !== undefined) this.scale(this.x, this.model.hiddenSize, embeddingScale, this.tokens);
    const stream = { x: this.x, rows: this.tokens };
    this.layerInputs?.record(
      (table, y) => this.embed(this.recorded.weights.table(table), y),
      (value, y) => this.product(value, y, stream),
    );
    for (const value of additions) {
      if (value.kind === 'sum') this.addSum(value, stream);
      else if (value.kind === 'rescaled') this.rescale(value);
      else this.add(value, stream);
      this.latestNorm = undefined;
    }
    if (logits === undefined) return;
    if (hiddenRows !== undefined && entry === undefined) {
      this.plainNorm(logits.of as Norm, this.x, hiddenRows, this.tokens);
    }
    if (logits.of.kind === 'norm' && this.hiddenSizeOf(graph) > 0) this.returnHidden(logits.of);
    this.sampleLogits(logits, graph);
    if (hiddenRows !== undefined && entry !== undefined) {
      this.plainNorm(logits.of as Norm, this.sampled, hiddenRows, this.samples);
    }
    if (embedding === undefined) this.gatherLastTokens();
  }

  /** x = projection · [norm(table[token of each row]), norm(hidden state of each row)] */
  private enter({ tokenNorm, hiddenNorm, epsilon, projection }: PredictionEntry, table: Matrix): void {
    const { hiddenSize } = this.model;
    const { count } = this.tokens;
    const f32 = (elements: number) => this.memory.allocate('f32', count.max * elements);
    const [token, hidden, both] = [f32(hiddenSize), f32(hiddenSize), f32(2 * hiddenSize)];
    this.embed(table, this.delta);
    const norm = (weight: VectorRef): Norm => ({ kind: 'norm', weight, epsilon, of: residual });
    this.plainNorm(norm(tokenNorm), this.delta, token, this.tokens);
    this.plainNorm(norm(hiddenNorm), this.recorded.hiddenRows as DeviceBuffer, hidden, this.tokens);
    this.plan.launch(kernels.joinRows, { a: token, b: hidden, y: both, columns: hiddenSize }, { rows: count });
    const input = { columns: 2 * hiddenSize, rows: this.tokens, forms: { f32: both } };
    this.products.multiplyEach(this.matricesOf(projection), input, this.x, undefined, hiddenSize);
  }

  /** y = table[token of each row] */
  private embed(table: Matrix, y: DeviceBuffer): void {
    const values = {
      table: table.buffer,
      y,
      row_token: this.tables.at('rowToken'),
      row_slot: this.tables.at('rowSlot'),
      // If another device samples, this one knows only the data that it sent.
      slots: this.lastTokens ?? this.slots,
      slot_words: this.lastTokens === undefined ? this.arena.slotWords : 1,
      hidden: table.columns,
    };
    const dims = { slot_count: this.arena.slots, vocabulary: table.rows, tokens: this.tokens.count };
    kernels.launchEmbeddingGather((...launched) => this.plan.launch(...launched), table.type, values, dims);
  }

  /** x *= the vector's one element */
  private rescale({ factor }: Rescaled): void {
    const [number] = this.device.readF32(this.recorded.weights.vector(factor)) as Float32Array & [number];
    this.scale(this.x, this.model.hiddenSize, number, this.tokens);
    this.singleToken?.written(false);
  }

  /** x += value */
  private add(value: Value, stream: Stream): void {
    const isSummed = this.added(value, stream);
    this.singleToken?.written(isSummed);
  }

  /** @returns whether a step of one row leaves the sums of squares of what x became */
  private added(value: Value, stream: Stream): boolean {
    const hidden = this.model.hiddenSize;
    if (value.kind === 'experts') {
      return this.routed(value, stream.x, stream, true);
    }
    if (value.kind === 'rank-sum') {
      const row = this.singleToken?.canSumRanks ? this.singleToken : undefined;
      this.summed(value, stream.x, stream, true, row);
      return row !== undefined;
    }
    if (this.canAddNorm(value)) return this.addNorm(value, stream, this.singleToken as SingleToken);
    if (value.kind === 'linear' && value.biases === undefined && value.weights.length === 1) {
      const [weight] = this.matricesOf(value) as [Matrix];
      const input = this.activation(value.of, [weight], stream);
      const form = this.products.encodingOf(weight);
      if (this.fusions.has(ADDED_PRODUCT) && this.products.layoutOf(weight).accumulates(weight)) {
        const target = { y: stream.x, stride: hidden, accumulate: true };
        const row = this.singleToken?.canSum(weight) ? this.singleToken : undefined;
        row?.add(weight, this.products.encoded(input, form), stream.x);
        this.products.multiply(weight, input, target, row?.multiToken);
        return row !== undefined;
      }
      this.products.multiply(weight, input, { y: this.delta, stride: hidden });
    } else {
      this.inF32(value, this.delta, stream);
    }
    this.plan.launch(kernels.residualAdd, { x: stream.x, y: this.delta, hidden }, { rows: stream.rows.count });
    return false;
  }

  private canAddNorm(value: Value): value is Norm {
    if (value.kind !== 'norm' || value.isCentered || value.of.kind === 'residual') return false;
    return this.singleToken !== undefined && this.fusions.has(ADDED_NORM) && ADDED_NORM.when(this.model.hiddenSize);
  }

  /** x += norm. @returns as {@link added} */
  private addNorm({ weight, epsilon: eps, of }: Norm, stream: Stream, { parts }: SingleToken): boolean {
    const { x, rows } = stream;
    const hidden = this.model.hiddenSize;
    const values = { x, y: this.source(of, stream), weight: this.recorded.weights.vector(weight), parts, hidden, eps };
    this.plan.launch(kernels.normAdd, values, { rows: rows.count, parts: kernels.normParts(hidden) });
    return true;
  }

  /** x += both values, each of x as it is. */
  private addSum({ of: [first, second] }: Sum, stream: Stream): void {
    const { x, rows } = stream;
    this.inF32(first, this.delta, stream);
    this.inF32(second, this.branch, stream);
    this.singleToken?.written(false);
    const dims = { rows: rows.count };
    for (const y of [this.delta, this.branch])
      this.plan.launch(kernels.residualAdd, { x, y, hidden: this.model.hiddenSize }, dims);
  }

  /** Norm and output projection of the sampled rows, the draw of their tokens, and the log probabilities asked for. */
  private sampleLogits(logits: Linear, { logitsScale, logitsSoftcap: cap }: StageGraph): void {
    const { hiddenSize, vocabularySize: columns } = this.model;
    const matrices = this.matricesOf(logits);
    const own = this.ranks?.logits ?? this.logits;
    const row = this.singleTokenOf(logits, matrices, { x: this.x, rows: this.tokens });
    row?.multiply(this.partsOf(matrices), this.normedRow(logits), own, undefined, ALONE);
    const rows =
      row === undefined ? this.samples : { ...this.samples, count: { ...this.samples.count, index: COUNT_GATHERED } };
    this.plan.launch(
      kernels.gatherRows,
      { x: this.x, y: this.sampled, index: this.tables.at('sampleRow'), hidden: hiddenSize },
      { tokens: this.tokens.count, samples: rows.count },
    );
    this.product(logits, own, { x: this.sampled, rows });
    this.ranks?.gather(this.logits, columns, this.samples);
    if (logitsScale !== undefined) this.scale(this.logits, columns, logitsScale, this.samples);
    if (cap !== undefined)
      this.plan.launch(kernels.softcap, { x: this.logits, columns, cap }, { rows: this.samples.count });
    this.plan.secondPartFromHere();
    const { device, memory, plan, tables, masks, limits } = this;
    const slots = this.recorded.slots === undefined ? { buffer: this.slots, arena: this.arena } : this.neutral();
    this.sampling = new Sampling(device, memory, plan, tables, masks, slots, limits, columns);
    this.sampling.record(this.logits);
  }

  /** Slots whose tokens are the likeliest: drafts are not sampled as their slots wish, whose last token stays. */
  private neutral(): Slots {
    const arena = slotArena({ maxSequences: this.limits.maxSequences, maxContext: 1 });
    return { buffer: this.memory.upload(neutralSlots(arena)), arena };
  }

  /** Elements of the hidden states that this stage returns; 0: none. */
  private hiddenSizeOf({ logits }: StageGraph): number {
    return logits?.of.kind === 'norm' && logits.of.of.kind === 'residual' ? this.model.hiddenSize : 0;
  }

  /** The output norm of the rows whose hidden states are returned. Their order of sums is that of all other norms. */
  private returnHidden(norm: Norm): void {
    const { tables, sampled } = this;
    const count = { index: COUNT_HIDDEN, max: this.limits.maxSequences };
    this.plan.launch(
      kernels.gatherRows,
      { x: this.x, y: sampled, index: tables.at('hiddenRow'), hidden: this.model.hiddenSize },
      { tokens: this.tokens.count, samples: count },
    );
    this.plainNorm(norm, sampled, tables.hidden, { ...this.samples, count });
  }

  /** lastTokens = the word of each slot that says what it sampled last: side by side, they are one message. */
  private gatherLastTokens(): void {
    const { slots: count, slotWords } = this.arena;
    const words = Int32Array.from({ length: count }, (_, slot) => slot * slotWords + SlotWord.lastToken);
    // Rows of one word each.
    const values = { x: asF32(this.slots), y: asF32(this.lastTokens as DeviceBuffer), hidden: 1 };
    const sizes = { tokens: this.arena.words, samples: count };
    this.plan.launch(kernels.gatherRows, { ...values, index: this.memory.upload(words) }, sizes);
  }

  /** The value as the input of matrices: in the form that they take if they all take one, else in f32. */
  private activation(
    value: Residual | Value,
    matrices: readonly Matrix[],
    stream: Stream,
    when?: LaunchCondition,
  ): Activation {
    const form = this.products.commonEncoding(matrices);
    const { rows } = stream;
    const columns = columnsOf(value, this.model.hiddenSize);
    switch (value.kind) {
      case 'residual':
        return { columns, rows, forms: { f32: stream.x } };
      case 'norm':
        return this.normalized(value, form, stream, when);
      case 'gated':
        return { columns, rows, forms: this.gate(value, form, stream) };
      case 'attention':
        return { columns, rows, forms: this.attend(value, form, stream) };
      case 'latent-attention': {
        const layers = this.latents as LatentAttentionLayers;
        return { columns, rows, forms: { f32: layers.record(value, (of, y) => this.product(of, y, stream)) } };
      }
      case 'delta-net':
        return { columns, rows, forms: { f32: this.recur(value, stream) } };
      case 'short-conv': {
        const layers = this.shortConvs as ShortConvLayers;
        return { columns, rows, forms: { f32: layers.record(value, (of, y) => this.product(of, y, stream)) } };
      }
      case 'mamba': {
        const layers = this.mambas as MambaLayers;
        return { columns, rows, forms: { f32: layers.record(value, (of, y) => this.product(of, y, stream)) } };
      }
      case 'layer-gated': {
        const layers = this.layerInputs as LayerInputLayers;
        return { columns, rows, forms: { f32: layers.gate(value, (of, y) => this.product(of, y, stream)) } };
      }
      case 'rescaled':
        throw new Error('what rescales the residual stream is no input');
      case 'linear':
      case 'scaled':
      case 'sum':
      case 'experts':
      case 'row-gated':
      case 'rank-sum':
        this.inF32(value, this.delta, stream);
        return { columns, rows, forms: { f32: this.delta } };
    }
  }

  /** The value in f32, in the memory that is given for it. */
  private inF32(value: Value, y: DeviceBuffer, stream: Stream): void {
    if (value.kind === 'linear') this.product(value, y, stream);
    else if (value.kind === 'norm') this.plainNorm(value, this.source(value.of, stream, y), y, stream.rows);
    else if (value.kind === 'scaled') {
      this.inF32(value.of, y, stream);
      this.scale(y, columnsOf(value, this.model.hiddenSize), value.factor, stream.rows);
    } else if (value.kind === 'row-gated') this.rowGated(value, y, stream);
    else if (value.kind === 'experts') this.routed(value, y, stream);
    else if (value.kind === 'sum') this.sum(value, y, stream);
    else if (value.kind === 'rank-sum') this.summed(value, y, stream);
    else throw new Error(`${value.kind} is not computed by itself`);
  }

  /**
   * y = what the experts make of their input, or that is added to it.
   *
   * @returns as {@link added}
   */
  private routed(value: Experts, y: DeviceBuffer, stream: Stream, accumulate = false): boolean {
    const layers = this.experts as ExpertLayers;
    const by = accumulate ? layers.singleToken(value, this.singleToken) : undefined;
    const router = this.recorded.weights.matrix(value.router.weight);
    const inputOf = (of: Residual | Value) => this.activation(of, [router], stream, by?.multiToken);
    const input = inputOf(value.router.of ?? value.of);
    // Both inputs are in one memory: the experts' is written when the scores are there.
    const expertsInput = () => (value.router.of === undefined ? input : inputOf(value.of));
    layers.record(value, input, expertsInput, y, accumulate, by && { by, row: this.normedRow(value) });
    return by !== undefined;
  }

  /** y = what all ranks compute of the product, or that is added to it. */
  private summed(value: RankSum, y: DeviceBuffer, stream: Stream, accumulate = false, row?: SingleToken): void {
    const ranks = this.ranks as AllReduce;
    this.product(value.of, ranks.part, stream);
    ranks.sum(y, this.model.hiddenSize, stream.rows, accumulate, row);
  }

  /** y = the value: computed, and each of its rows then multiplied by its gate. */
  private rowGated({ gate, by, of }: RowGated, y: DeviceBuffer, stream: Stream): void {
    this.inF32(of, y, stream);
    const columns = gate.length;
    const weight = {
      type: 'f32',
      layout: 'file',
      buffer: this.recorded.weights.vector(gate),
      rows: 1,
      columns,
    } as const;
    this.products.multiply(weight, this.activation(by, [weight], stream), { y: this.gates, stride: 1 });
    const values = { y, gate: this.gates, columns: columnsOf(of, this.model.hiddenSize) };
    this.plan.launch(kernels.gateRows, values, { rows: stream.rows.count });
  }

  /** x *= factor */
  private scale(x: DeviceBuffer, columns: number, factor: number, { count }: Rows): void {
    this.plan.launch(kernels.scale('f32'), { x, columns, factor }, { rows: count });
  }

  /** Input of a norm: the residual stream, or another value in f32, in memory for it. */
  private source(of: Residual | Value, stream: Stream, memory = this.delta): DeviceBuffer {
    if (of.kind === 'residual') return stream.x;
    this.inF32(of, memory, stream);
    return memory;
  }

  /** y = both values together */
  private sum({ of: [first, second] }: Sum, y: DeviceBuffer, stream: Stream): void {
    if (y === this.branch) throw new Error('a sum in a sum has no memory');
    this.inF32(first, y, stream);
    this.inF32(second, this.branch, stream);
    const values = { x: y, y: this.branch, hidden: columnsOf(second, this.model.hiddenSize) };
    this.plan.launch(kernels.residualAdd, values, { rows: stream.rows.count });
  }

  /** The norm in the form, or in f32, from which others are made; what several values are computed from is normalized once. */
  private normalized(value: Norm, form: ActivationEncoding, stream: Stream, when?: LaunchCondition): Activation {
    const latest = this.latestNorm?.value === value ? this.latestNorm.input : undefined;
    if (latest?.forms[form] !== undefined || latest?.forms.f32 !== undefined) return latest;
    const columns = columnsOf(value, this.model.hiddenSize);
    const input = { columns, rows: stream.rows, forms: this.norm(value, form, stream, when) };
    this.latestNorm = { value, input };
    return input;
  }

  private norm(value: Norm, form: ActivationEncoding, stream: Stream, when?: LaunchCondition): Activation['forms'] {
    const x = this.source(value.of, stream);
    const rule = NORM_FUSIONS.find((candidate) => this.fusions.has(candidate) && candidate.into.includes(form));
    if (rule === undefined || value.isCentered) {
      this.plainNorm(value, x, this.normed.f32, stream.rows, when);
      return { f32: this.normed.f32 };
    }
    const y = asEncoding(this.normed.other, form);
    const weight = this.recorded.weights.vector(value.weight);
    const input = { x, weight, columns: value.weight.length, epsilon: value.epsilon };
    rule.launch(this.site(stream), input, form, y, when);
    return { [form]: y };
  }

  /** Arguments with which a fused launch is recorded. */
  private site({ rows }: Stream): FusionSite {
    return { plan: this.plan, rows, columns: this.products.columns };
  }

  private plainNorm(
    { weight, epsilon, isCentered }: Norm,
    x: DeviceBuffer,
    y: DeviceBuffer,
    rows: Rows,
    when?: LaunchCondition,
  ): void {
    const values = { x, weight: this.recorded.weights.vector(weight), y, hidden: weight.length, eps: epsilon };
    this.plan.launch(isCentered ? kernels.layerNorm : kernels.rmsNorm, values, { rows: rows.count }, when);
  }

  private gate({ activation, of }: Gated, form: ActivationEncoding, stream: Stream): Activation['forms'] {
    const matrices = this.matricesOf(of);
    const both = joined(matrices);
    const ffn = columnsOf(of, this.model.hiddenSize) / 2;
    const y = asEncoding(this.gated.other, form);
    const rule =
      activation === 'silu'
        ? GATED_FUSIONS.find((candidate) => this.fusions.has(candidate) && candidate.into.includes(form))
        : undefined;
    const row = this.singleTokenOf(of, matrices, stream);
    // The gating launch writes the encoding that such weights take; the value's consumer may take another.
    const isEncoded = this.products.commonEncoding(matrices) === form;
    const isGatedAlone = rule !== undefined && of.biases === undefined && isEncoded && row?.canGate(matrices) === true;
    if (isGatedAlone) row?.gate(matrices, this.normedRow(of), y);
    else row?.multiply(this.partsOf(matrices), this.normedRow(of), this.gateUp);
    const input = this.activation(of.of, matrices, stream, row?.multiToken);
    const dims = { rows: stream.rows.count };
    const isOne =
      rule !== undefined &&
      of.biases === undefined &&
      this.fusions.has(GATED_PRODUCT) &&
      GATED_PRODUCT.into.includes(form as kernels.TileType) &&
      both !== undefined &&
      this.products.layoutOf(both).gated?.takes(both) === true &&
      this.products.encodingOf(both) === form;
    // One launch for all of it where that is the faster, two for fewer rows.
    const few = isOne ? this.products.layoutOf(both).gated?.apart(both, stream.rows) : undefined;
    this.products.multiplyEach(matrices, input, this.gateUp, bothOf(few, row?.multiToken));
    const bias = this.biasOf(of);
    if (bias !== undefined) this.addBias(bias, this.gateUp, stream);
    if (rule === undefined) {
      const kernel = activation === 'silu' ? kernels.swiglu : kernels.geglu;
      this.plan.launch(kernel, { gate_up: this.gateUp, y: this.gated.f32, ffn }, dims);
      return { f32: this.gated.f32 };
    }
    const activated = isGatedAlone ? bothOf(few, row?.multiToken) : few;
    rule.launch(this.site(stream), { gateUp: this.gateUp, ffn }, form, y, activated);
    if (isOne) this.products.multiplyGated(both, input, form as kernels.TileType, y);
    return { [form]: y };
  }

  private attend(value: Attention, form: ActivationEncoding, stream: Stream): Activation['forms'] {
    if (!value.isGated) {
      const stride = (value.heads + 2 * value.kvHeads) * value.headDim;
      const unrotated = this.product(value.qkv, this.qkv, stream, this.attentions.rotating(value), stride);
      return this.attentions.record(value, this.qkv, form, unrotated);
    }
    const gates = this.queryGates as QueryGates;
    this.product(value.qkv, gates.gatedQkv, stream);
    gates.split(value, this.qkv);
    const forms = this.attentions.record(value, this.qkv, 'f32');
    gates.apply(value, forms.f32 as DeviceBuffer);
    return forms;
  }

  private recur(net: DeltaNet, stream: Stream): DeviceBuffer {
    return (this.recurrent as RecurrentLayers).record(net, (value, y) => this.product(value, y, stream));
  }

  /**
   * The products side by side in y, with their biases.
   *
   * @param heads y is q, k and v, and steps of one row may turn and store them
   * @param stride elements from a row of y to the next; default: as many as there are products
   * @returns the steps in which they are not rotated; undefined: all
   */
  private product(
    value: Linear,
    y: DeviceBuffer,
    stream: Stream,
    heads?: kernels.RotatedHeads,
    stride?: number,
  ): LaunchCondition | undefined {
    const matrices = this.matricesOf(value);
    const row = this.singleTokenOf(value, matrices, stream);
    const bias = this.biasOf(value);
    const parts = this.partsOf(matrices);
    const rotates = heads !== undefined && row?.canRotate(parts) === true;
    if (rotates) row.multiplyHeads(parts, this.normedRow(value), y, bias, heads);
    const isBiased = rotates || row?.multiply(parts, this.normedRow(value), y, bias) === true;
    const input = this.activation(value.of, matrices, stream, row?.multiToken);
    this.products.multiplyEach(matrices, input, y, row?.multiToken, stride);
    if (bias !== undefined) this.addBias(bias, y, stream, isBiased ? row?.multiToken : undefined);
    return rotates ? row.multiToken : undefined;
  }

  /** Undefined where a step of one row multiplies as all others do. */
  private singleTokenOf(value: Linear, matrices: readonly Matrix[], stream: Stream): SingleToken | undefined {
    return stream.x === this.x && this.singleToken?.canNormalize(value, matrices) ? this.singleToken : undefined;
  }

  /** Matrices that one launch multiplies. */
  private partsOf(matrices: readonly Matrix[]): readonly ProductPart[] {
    const parts: ProductPart[] = [];
    this.products.eachJoined(matrices, (matrix, column) => parts.push({ matrix, column }));
    return parts;
  }

  private normedRow({ of }: Linear | Experts): NormedRow {
    const { weight, epsilon } = of as Norm;
    return { x: this.x, weight: this.recorded.weights.vector(weight), epsilon };
  }

  /** The biases of the products side by side; undefined where they have none. */
  private biasOf({ biases }: Linear): DeviceBuffer | undefined {
    if (biases === undefined) return undefined;
    // They lie apart in the file: joined, one launch adds them.
    const parts = biases.map((bias) =>
      bias.tensor === undefined
        ? new Float32Array(bias.length)
        : this.device.readF32(this.recorded.weights.vector(bias)),
    );
    return this.memory.upload(Float32Array.from(parts.flatMap((part) => [...part])));
  }

  private addBias(bias: DeviceBuffer, y: DeviceBuffer, stream: Stream, when?: LaunchCondition): void {
    this.plan.launch(kernels.biasAdd, { y, bias, out: bias.elements }, { rows: stream.rows.count }, when);
  }

  private matricesOf({ weights }: Linear): readonly Matrix[] {
    return weights.map((weight) => this.recorded.weights.matrix(weight));
  }
}

/** Steps whose only row is sampled. */
const ALONE: LaunchCondition = { count: { index: COUNT_SINGLE_TOKEN, max: 1 }, atLeast: 1 };

/** Words that are moved, whatever they hold. */
const asF32 = (words: DeviceBuffer): DeviceBuffer => ({ ...words, dtype: 'f32' });
