import { RocmForgeError } from '../../shared/errors.js';
import { bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, Rows } from '../kernels/launch-plan.js';
import type { Attention, EncoderSight, QkNorm } from '../model/values.js';
import { EncoderAttention } from './encoder-attention.js';
import { COMBINED_FORM, NORMED_APPEND, ROTATED_APPEND } from './fusions.js';
import { commonSplits } from './large-attention.js';
import {
  type AttentionSite,
  type AttentionSplits,
  type AttentionVariant,
  PagedAttention,
  type QkNormValues,
  type RopeTables,
} from './paged-attention.js';
import type { Activation, ActivationEncoding, Products } from './products.js';
import type { RecordedModel } from './recorded-model.js';
import { rotate } from './rotate-append.js';
import { UnfusedAttention } from './unfused-attention.js';

/** Norms of q and k by a launch of their own. */
const NORM_KERNELS = { head: kernels.headNorm, row: kernels.qkNorm, 'own-head': kernels.headLayerNorm } as const;

/** @throws RocmForgeError where attention with sinks is not built for the form or the head size */
function refuseSinks(
  { device, limits: { attention }, cache }: Pick<AttentionSite, 'device' | 'limits' | 'cache'>,
  shape: kernels.AttentionShape,
): void {
  const { heads, kvHeads, headDim } = shape;
  if (attention === 'unfused')
    throw new RocmForgeError('INVALID_OPTION', 'unfused attention has no sinks, which this model has');
  if (!device.isHost && cache.type !== 'f32' && kernels.tileRows(shape, cache.type) === undefined) {
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `attention with sinks is built for at most ${kernels.ATTENTION_TILE_QUERIES} query heads of a KV head on GPUs, not ${heads / kvHeads}`,
    );
  }
  if (kernels.SINK_HEAD_DIMS.includes(headDim)) return;
  throw new RocmForgeError(
    'MODEL_UNSUPPORTED',
    `attention with sinks is built for heads of ${kernels.SINK_HEAD_DIMS.join(', ')} elements, not ${headDim}`,
  );
}

/** Attention of a model's layers, from q, k and v on: norms, what queries are multiplied by, RoPE, cache, scores. */
export class AttentionLayers {
  /** One for each shape that layers have. */
  private readonly forms = new Map<string, AttentionVariant>();

  private readonly encoder: EncoderAttention;

  private readonly ones = new Map<number, DeviceBuffer>();

  /** `[rows, columns]` f32: what rows attend to, or what of it is between. */
  private readonly out: DeviceBuffer;
  /** The same in the form that products take; undefined where it is not written so. */
  private readonly formed: DeviceBuffer | undefined;

  /**
   * @param tokens the rows that attend: those of the step
   * @param columns of the widest value
   */
  constructor(
    private readonly site: Omit<AttentionSite, 'shape'>,
    private readonly recorded: Pick<RecordedModel, 'weights' | 'ropes'>,
    private readonly products: Products,
    private readonly tokens: Rows,
    columns: number,
  ) {
    const { memory, limits, fusions } = site;
    this.encoder = new EncoderAttention(site);
    this.out = memory.allocate('f32', limits.maxStepTokens * columns);
    const isFormed = fusions.has(COMBINED_FORM);
    this.formed = isFormed ? products.roomInAnyForm(memory, limits.maxStepTokens, columns) : undefined;
  }

  /** Split of attention among blocks, for graphs: {@link AttentionVariant.splits}. */
  get splits(): AttentionSplits | undefined {
    return commonSplits([...this.forms.values()].map((form) => form.splits));
  }

  /** RoPE tables and cache for a product of one row that rotates q and k and stores k and v; undefined: it may not. */
  rotating(value: Attention): kernels.RotatedHeads | undefined {
    if (value.sight !== undefined) return undefined;
    const { form, tables, norms, isApart } = this.partsOf(value);
    if (isApart || tables.queryFactors !== undefined || value.qkNorm?.after !== undefined) return undefined;
    return form.rotating?.(this.site.cache.layer(value.layer), value.rope, tables, norms);
  }

  /**
   * Result of attention, in the requested encoding where it can be written so, else in f32; changes qkv.
   *
   * @param unrotated in which steps q and k are not rotated yet; default: all
   */
  record(
    value: Attention,
    qkv: DeviceBuffer,
    wanted: ActivationEncoding,
    unrotated?: LaunchCondition,
  ): Activation['forms'] {
    if (value.sight !== undefined) return this.sighted(value, value.sight, qkv);
    const { qkNorm, rope, layer } = value;
    const { form, tables, norms, isApart } = this.partsOf(value);
    if (qkNorm?.after !== undefined) {
      const before = this.recorded.ropes.get(qkNorm.after) as RopeTables;
      rotate({ ...this.site, shape: value }, qkNorm.after, before, qkv, value.heads + value.kvHeads);
    }
    if (norms !== undefined && isApart && value.isShared)
      this.normHeads(value, qkv, 0, value.heads, norms.query_weight);
    else if (norms !== undefined && isApart) this.normQueriesAndKeys(value, norms, qkv);
    if (value.valueNormEpsilon !== undefined && !value.isShared) {
      const { heads, kvHeads, headDim } = value;
      this.normHeads(value, qkv, heads + kvHeads, kvHeads, this.onesOf(headDim), value.valueNormEpsilon);
    }
    if (tables.queryFactors !== undefined) this.scaleQueries(value, tables.queryFactors, qkv);
    const attended = form.writesForms ? this.products.attendedAs(this.formed, wanted) : undefined;
    const sinks = value.sinks && this.recorded.weights.vector(value.sinks);
    const extras = { norms: isApart ? undefined : norms, attended, sinks, unrotated, isShared: value.isShared };
    form.record(this.site.cache.layer(layer), rope, tables, qkv, this.out, extras);
    return attended === undefined ? { f32: this.out } : { [wanted]: attended.y };
  }

  /** The same of an encoder, in f32. */
  private sighted(value: Attention, sight: EncoderSight, qkv: DeviceBuffer): Activation['forms'] {
    const { qkNorm, rope } = value;
    if (qkNorm !== undefined) this.normQueriesAndKeys(value, this.normsOf(qkNorm), qkv);
    this.encoder.record(value, sight, this.recorded.ropes.get(rope) as RopeTables, qkv, this.out);
    return { f32: this.out };
  }

  /** Norms of q and k by a launch of their own. */
  private normQueriesAndKeys(
    { heads, kvHeads: kv_heads, headDim: head_dim, qkNorm }: Attention,
    norms: QkNormValues,
    qkv: DeviceBuffer,
  ): void {
    const kernel = NORM_KERNELS[qkNorm?.over ?? 'row'];
    this.site.plan.launch(kernel, { qkv, ...norms, heads, kv_heads, head_dim }, { tokens: this.tokens.count });
  }

  private partsOf(value: Attention) {
    const { qkNorm, rope } = value;
    const tables = this.recorded.ropes.get(rope) as RopeTables;
    const form = this.variantFor(value);
    const norms = qkNorm && this.normsOf(qkNorm);
    const isPlain = value.isShared === undefined && value.valueNormEpsilon === undefined;
    const isFused =
      qkNorm?.over === 'head' &&
      isPlain &&
      tables.queryFactors === undefined &&
      form.normalizes &&
      NORMED_APPEND.when(rope);
    /** True if launches of their own normalize heads. */
    const isApart = !isPlain || (norms !== undefined && !isFused);
    return { form, tables, norms, isApart };
  }

  /** RMS norm of `count` heads of each row of qkv, from `first` on. */
  private normHeads(
    { heads, kvHeads, headDim: head_dim, qkNorm }: Attention,
    qkv: DeviceBuffer,
    first: number,
    count: number,
    weight: DeviceBuffer,
    eps = qkNorm?.epsilon as number,
  ): void {
    const x = bufferFrom(qkv, first * head_dim);
    const values = { x, weight, heads: count, head_dim, x_stride: (heads + 2 * kvHeads) * head_dim, eps };
    this.site.plan.launch(kernels.headsNorm, values, { rows: this.tokens.count });
  }

  /** `[headDim]` of 1: the weight of a norm that has none. */
  private onesOf(headDim: number): DeviceBuffer {
    let ones = this.ones.get(headDim);
    if (ones === undefined) {
      ones = this.site.memory.upload(new Float32Array(headDim).fill(1));
      this.ones.set(headDim, ones);
    }
    return ones;
  }

  private normsOf({ query, key, epsilon }: QkNorm): QkNormValues {
    return {
      query_weight: this.recorded.weights.vector(query),
      key_weight: this.recorded.weights.vector(key),
      eps: epsilon,
    };
  }

  private scaleQueries({ heads, kvHeads, headDim }: Attention, factors: DeviceBuffer, qkv: DeviceBuffer): void {
    const { plan, tables, limits } = this.site;
    plan.launch(
      kernels.scaleQueries,
      { qkv, factors, row_position: tables.at('rowPosition'), heads, kv_heads: kvHeads, head_dim: headDim },
      { tokens: this.tokens.count, max_position: limits.maxContext },
    );
  }

  /** Attention variant for layers of this shape. */
  private variantFor({ heads, kvHeads, headDim, scale, window, softcap, sinks }: Attention): AttentionVariant {
    const shape = { heads, kvHeads, headDim, scale, window, softcap, hasSinks: sinks !== undefined };
    const key = Object.values(shape).join();
    let form = this.forms.get(key);
    if (form === undefined) {
      if (shape.hasSinks) refuseSinks(this.site, shape);
      const Form = this.site.limits.attention === 'unfused' ? UnfusedAttention : PagedAttention;
      const { fusions: all } = this.site;
      const fusions = ROTATED_APPEND.when(headDim) ? all : new Set([...all].filter((rule) => rule !== ROTATED_APPEND));
      form = new Form({ ...this.site, shape, fusions });
      this.forms.set(key, form);
    }
    return form;
  }
}
