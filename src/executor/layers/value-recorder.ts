import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, Rows } from '../kernels/launch-plan.js';
import { joined, type Matrix } from '../model/matrix.js';
import {
  type Attention,
  columnsOf,
  type Experts,
  type Gated,
  type Linear,
  type Norm,
  qkvColumnsOf,
  type RankSum,
  type Residual,
  type RowGated,
  type StageGraph,
  type Sum,
  type Value,
} from '../model/values.js';
import { activate } from './activate.js';
import type { AllReduce } from './all-reduce.js';
import type { ExpertLayers } from './expert-layers.js';
import { GATED_FUSIONS, GATED_PRODUCT } from './fusions.js';
import { LayerRecorders } from './layer-recorders.js';
import { Norms } from './norms.js';
import { type Activation, type ActivationEncoding, asEncoding, bothOf } from './products.js';
import type { Stream } from './recorded-model.js';
import type { NormedRow, SingleToken } from './single-token.js';
import { partsOf } from './single-token-matrices.js';
import type { StepSite } from './step-site.js';
import { innerColumnsOf, widestOf } from './widths.js';

/** A model's values as launches: each is computed into memory of its kind, what it is computed from before it. */
export class ValueRecorder {
  readonly layers: LayerRecorders;
  /** Values that are not added to the residual stream by the launch that computes them, and inputs of norms. */
  readonly delta: DeviceBuffer;
  /** The second part of a sum. */
  readonly branch: DeviceBuffer;
  readonly norms: Norms;
  /** `[max_step_tokens, heads + 2 * kv_heads, head_dim]` */
  private readonly qkv: DeviceBuffer;
  /** `[max_step_tokens, 2, ffn]` */
  private readonly gateUp: DeviceBuffer;
  /** Gated rows in f32 and in the encoding that their matrices take. */
  private readonly gated: Record<'f32' | 'other', DeviceBuffer>;
  /** Gates of rows, `[max_step_tokens]`. */
  private readonly gates: DeviceBuffer;

  /** @param values all of the graph */
  constructor(
    private readonly site: StepSite,
    graph: StageGraph,
    values: readonly Value[],
  ) {
    const { memory, products, limits, model } = site;
    const rows = limits.maxStepTokens;
    const f32 = (elements: number) => memory.allocate('f32', elements);
    const widest = (kind: Value['kind']) => widestOf(values, kind, model.hiddenSize);
    const qkvColumns = values.map((value) => (value.kind === 'attention' ? qkvColumnsOf(value) : 1));
    this.qkv = f32(rows * Math.max(1, ...qkvColumns));
    this.gateUp = f32(rows * Math.max(2 * widest('gated'), widest('activated')));
    this.gated = products.roomInBoth(memory, rows, widest('gated'));
    this.delta = f32(rows * Math.max(model.hiddenSize, widest('norm'), innerColumnsOf(graph)));
    this.branch = f32(rows * widest('sum'));
    this.gates = f32(rows);
    this.norms = new Norms(site, widest('norm'));
    this.layers = new LayerRecorders(site, graph, values, widest('attention'));
  }

  /** Tells that the residual stream is no longer what norms were taken of. */
  residualChanged(): void {
    this.norms.forget();
  }

  /** The value as the input of matrices: in the form that they take if they all take one, else in f32. */
  activation(value: Residual | Value, matrices: readonly Matrix[], stream: Stream, when?: LaunchCondition): Activation {
    const form = this.site.products.commonEncoding(matrices);
    const { rows } = stream;
    const columns = columnsOf(value, this.site.model.hiddenSize);
    if (value.kind === 'norm') {
      return this.norms.normalized(value, form, rows, () => this.source(value.of, stream), when);
    }
    return { columns, rows, forms: this.formsOf(value, form, stream) };
  }

  private formsOf(
    value: Residual | Exclude<Value, Norm>,
    form: ActivationEncoding,
    stream: Stream,
  ): Activation['forms'] {
    const { latents, recurrent, shortConvs, mambas, layerInputs, streams } = this.layers;
    const product = (of: Linear, y: DeviceBuffer) => this.product(of, y, stream);
    switch (value.kind) {
      case 'residual':
        return { f32: stream.x };
      case 'gated':
        return this.gate(value, form, stream);
      case 'activated':
        this.inF32(value, this.gateUp, stream);
        return { f32: this.gateUp };
      case 'attention':
        return this.attend(value, form, stream);
      case 'latent-attention':
        return { f32: latents!.record(value, product) };
      case 'delta-net':
        return { f32: recurrent!.record(value, product) };
      case 'short-conv':
        return { f32: shortConvs!.record(value, product) };
      case 'mamba':
        return { f32: mambas!.record(value, product) };
      case 'layer-gated':
        return { f32: layerInputs!.gate(value, product) };
      case 'corrected-stream':
        return { f32: streams!.kept };
      case 'rescaled':
      case 'renormed':
      case 'mixed-streams':
      case 'other-streams':
        throw new Error('what changes streams is not an input');
      case 'linear':
      case 'scaled':
      case 'sum':
      case 'experts':
      case 'row-gated':
      case 'rank-sum':
        this.inF32(value, this.delta, stream);
        return { f32: this.delta };
    }
  }

  /** y = the value in f32 */
  inF32(value: Value, y: DeviceBuffer, stream: Stream): void {
    switch (value.kind) {
      case 'linear':
        this.product(value, y, stream);
        return;
      case 'norm':
        this.plainNorm(value, this.source(value.of, stream, y), y, stream.rows);
        return;
      case 'activated':
        this.product(value.of, y, stream);
        activate(this.site.plan, value.activation, y, columnsOf(value, 0), stream.rows);
        return;
      case 'scaled':
        this.inF32(value.of, y, stream);
        this.scale(y, columnsOf(value, this.site.model.hiddenSize), value.factor, stream.rows);
        return;
      case 'row-gated':
        this.rowGated(value, y, stream);
        return;
      case 'experts':
        this.routed(value, y, stream);
        return;
      case 'sum':
        this.sum(value, y, stream);
        return;
      case 'rank-sum':
        this.summed(value, y, stream);
        return;
      default:
        throw new Error(`${value.kind} is not computed by itself`);
    }
  }

  /**
   * y = what the experts make of their input, or that is added to it.
   *
   * @returns whether a step of one row leaves the sums of squares of y
   */
  routed(value: Experts, y: DeviceBuffer, stream: Stream, accumulate = false): boolean {
    const layers = this.layers.experts as ExpertLayers;
    const by = accumulate ? layers.singleToken(value, this.site.singleToken) : undefined;
    const router = this.site.weights.matrix(value.router.weight);
    const inputOf = (of: Residual | Value) => this.activation(of, [router], stream, by?.multiToken);
    const input = inputOf(value.router.of ?? value.of);
    // Both inputs are in one memory: the experts' is written when the scores are there.
    const expertsInput = () => (value.router.of === undefined ? input : inputOf(value.of));
    layers.record(value, input, expertsInput, y, accumulate, by && { by, row: this.normedRow(value) });
    return by !== undefined;
  }

  /** y = what all ranks compute of the product, or that is added to it. */
  summed(value: RankSum, y: DeviceBuffer, stream: Stream, accumulate = false, row?: SingleToken): void {
    const ranks = this.site.ranks as AllReduce;
    this.product(value.of, ranks.part, stream);
    ranks.sum(y, this.site.model.hiddenSize, stream.rows, accumulate, row);
  }

  /** x *= factor */
  scale(x: DeviceBuffer, columns: number, factor: number, { count }: Rows): void {
    this.site.plan.launch(kernels.scale('f32'), { x, columns, factor }, { rows: count });
  }

  /** y = the norm of x, in f32 */
  plainNorm(norm: Norm, x: DeviceBuffer, y: DeviceBuffer, rows: Rows): void {
    this.norms.plain(norm, x, y, rows);
  }

  /** Input of a norm: the residual stream, or another value in f32, in memory for it. */
  source(of: Residual | Value, stream: Stream, memory = this.delta): DeviceBuffer {
    if (of.kind === 'residual') return stream.x;
    this.inF32(of, memory, stream);
    return memory;
  }

  /** y = the value: computed, and each of its rows then multiplied by its gate. */
  private rowGated({ gate, by, of }: RowGated, y: DeviceBuffer, stream: Stream): void {
    const { products, weights, plan, model } = this.site;
    this.inF32(of, y, stream);
    const buffer = weights.vector(gate);
    const weight = { type: 'f32', layout: 'file', buffer, rows: 1, columns: gate.length } as const;
    products.multiply(weight, this.activation(by, [weight], stream), { y: this.gates, stride: 1 });
    const values = { y, gate: this.gates, columns: columnsOf(of, model.hiddenSize) };
    plan.launch(kernels.gateRows, values, { rows: stream.rows.count });
  }

  /** y = both values together */
  private sum({ of: [first, second] }: Sum, y: DeviceBuffer, stream: Stream): void {
    if (y === this.branch) throw new Error('a sum in a sum has no memory');
    this.inF32(first, y, stream);
    this.inF32(second, this.branch, stream);
    const values = { x: y, y: this.branch, hidden: columnsOf(second, this.site.model.hiddenSize) };
    this.site.plan.launch(kernels.residualAdd, values, { rows: stream.rows.count });
  }

  private gate({ activation, deviations, of }: Gated, form: ActivationEncoding, stream: Stream): Activation['forms'] {
    const { plan, products, fusions, model } = this.site;
    const matrices = this.matricesOf(of);
    const both = joined(matrices);
    const ffn = columnsOf(of, model.hiddenSize) / 2;
    const y = asEncoding(this.gated.other, form);
    const rule =
      activation === 'silu'
        ? GATED_FUSIONS.find((candidate) => fusions.has(candidate) && candidate.into.includes(form))
        : undefined;
    const row = this.singleTokenOf(of, matrices, stream);
    // The gating launch writes the encoding that such weights take; the value's consumer may take another.
    const isEncoded = products.commonEncoding(matrices) === form;
    const isGatedAlone = rule !== undefined && of.biases === undefined && isEncoded && row?.canGate(matrices) === true;
    if (isGatedAlone) row?.gate(matrices, this.normedRow(of), y);
    else row?.multiply(partsOf(products, matrices), this.normedRow(of), this.gateUp);
    const input = this.activation(of.of, matrices, stream, row?.multiToken);
    const isOne =
      rule !== undefined &&
      of.biases === undefined &&
      fusions.has(GATED_PRODUCT) &&
      GATED_PRODUCT.into.includes(form as kernels.TileType) &&
      both !== undefined &&
      products.layoutOf(both).gated?.takes(both) === true &&
      products.encodingOf(both) === form;
    // One launch for all of it where that is the faster, two for fewer rows.
    const few = isOne ? products.layoutOf(both).gated?.apart(both, stream.rows) : undefined;
    products.multiplyEach(matrices, input, this.gateUp, bothOf(few, row?.multiToken));
    const bias = this.biasOf(of);
    if (bias !== undefined) this.addBias(bias, this.gateUp, stream);
    if (rule === undefined) {
      const values = { gate_up: this.gateUp, y: this.gated.f32, ffn };
      const dims = { rows: stream.rows.count };
      if (deviations !== undefined) plan.launch(kernels.sparseGeglu, { ...values, deviations }, dims);
      else plan.launch(activation === 'silu' ? kernels.swiglu : kernels.geglu, values, dims);
      return { f32: this.gated.f32 };
    }
    const activated = isGatedAlone ? bothOf(few, row?.multiToken) : few;
    const site = { plan, rows: stream.rows, columns: products.columns };
    rule.launch(site, { gateUp: this.gateUp, ffn }, form, y, activated);
    if (isOne) products.multiplyGated(both, input, form as kernels.TileType, y);
    return { [form]: y };
  }

  private attend(value: Attention, form: ActivationEncoding, stream: Stream): Activation['forms'] {
    const { attentions, queryGates } = this.layers;
    if (!value.isGated) {
      const heads = attentions.rotating(value);
      const unrotated = this.product(value.qkv, this.qkv, stream, heads, qkvColumnsOf(value));
      return attentions.record(value, this.qkv, form, unrotated);
    }
    this.product(value.qkv, queryGates!.gatedQkv, stream);
    queryGates!.split(value, this.qkv);
    const forms = attentions.record(value, this.qkv, 'f32');
    queryGates!.apply(value, forms.f32 as DeviceBuffer);
    return forms;
  }

  /**
   * The products side by side in y, with their biases.
   *
   * @param heads y is q, k and v, and steps of one row may turn and store them
   * @param stride elements from a row of y to the next; default: as many as there are products
   * @returns the steps in which they are not rotated; undefined: all
   */
  product(
    value: Linear,
    y: DeviceBuffer,
    stream: Stream,
    heads?: kernels.RotatedHeads,
    stride?: number,
  ): LaunchCondition | undefined {
    const matrices = this.matricesOf(value);
    const row = this.singleTokenOf(value, matrices, stream);
    const bias = this.biasOf(value);
    const parts = partsOf(this.site.products, matrices);
    const rotates = heads !== undefined && row?.canRotate(parts) === true;
    if (rotates) row.multiplyHeads(parts, this.normedRow(value), y, bias, heads);
    const isBiased = rotates || row?.multiply(parts, this.normedRow(value), y, bias) === true;
    const input = this.activation(value.of, matrices, stream, row?.multiToken);
    this.site.products.multiplyEach(matrices, input, y, row?.multiToken, stride);
    if (bias !== undefined) this.addBias(bias, y, stream, isBiased ? row?.multiToken : undefined);
    return rotates ? row.multiToken : undefined;
  }

  /** The products of steps of one row, in y, where they have launches of their own. @returns undefined where not */
  rowProduct(value: Linear, y: DeviceBuffer, stream: Stream, when: LaunchCondition): SingleToken | undefined {
    const matrices = this.matricesOf(value);
    const row = this.singleTokenOf(value, matrices, stream);
    row?.multiply(partsOf(this.site.products, matrices), this.normedRow(value), y, undefined, when);
    return row;
  }

  matricesOf({ weights }: Linear): readonly Matrix[] {
    return weights.map((weight) => this.site.weights.matrix(weight));
  }

  /** Undefined where a step of one row multiplies as all others do. */
  private singleTokenOf(value: Linear, matrices: readonly Matrix[], stream: Stream): SingleToken | undefined {
    const { singleToken, x } = this.site;
    return stream.x === x && singleToken?.canNormalize(value, matrices) ? singleToken : undefined;
  }

  private normedRow({ of }: Linear | Experts): NormedRow {
    const { weight, epsilon } = of as Norm;
    return { x: this.site.x, weight: this.site.weights.vector(weight), epsilon };
  }

  /** The biases of the products side by side; undefined where they have none. */
  private biasOf({ biases }: Linear): DeviceBuffer | undefined {
    if (biases === undefined) return undefined;
    const { device, weights, memory } = this.site;
    // They lie apart in the file: joined, one launch adds them.
    const parts = biases.map((bias) =>
      bias.tensor === undefined ? new Float32Array(bias.length) : device.readF32(weights.vector(bias)),
    );
    return memory.upload(Float32Array.from(parts.flatMap((part) => [...part])));
  }

  private addBias(bias: DeviceBuffer, y: DeviceBuffer, stream: Stream, when?: LaunchCondition): void {
    this.site.plan.launch(kernels.biasAdd, { y, bias, out: bias.elements }, { rows: stream.rows.count }, when);
  }
}
