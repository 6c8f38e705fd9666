import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Launch, LaunchCondition, LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { KvCache, LayerCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Slots } from '../model/sampling.js';
import {
  COUNT_COMBINED,
  COUNT_PARTED,
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
} from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';
import type { Attention, Rope } from '../model/values.js';
import {
  COMBINED_SPLIT,
  type Fusion,
  NORMED_APPEND,
  ROTATED_APPEND,
  ROTATED_PRODUCT,
  SINGLE_TOKEN,
} from './fusions.js';
import { HostAttention } from './host-attention.js';
import { LargeAttention } from './large-attention.js';
import { anglesOf, rotate, rotateAndAppend, slotsOf } from './rotate-append.js';

/** Arguments with which attention is recorded, and its shape. */
export interface AttentionSite {
  readonly device: Device;
  readonly memory: Allocator;
  readonly plan: LaunchPlanRecorder;
  readonly tables: StepTables;
  readonly slots: Slots;
  readonly shape: Pick<Attention, 'heads' | 'kvHeads' | 'headDim' | 'scale' | 'window' | 'softcap'> & {
    readonly hasSinks?: boolean;
  };
  readonly limits: Limits;
  readonly cache: KvCache;
  readonly fusions: ReadonlySet<Fusion>;
}

/** Cosines and sines of a {@link Rope}, `[positions, dimensions / 2]` f32 each. */
export interface RopeTables {
  readonly cosine: DeviceBuffer;
  readonly sine: DeviceBuffer;
  /** Factors of queries, `[positions]`; undefined: none. */
  readonly queryFactors: DeviceBuffer | undefined;
}

/**
 * Steps of few rows split each context into parts, of which the longest has `most`; in others up to `tileRows` consecutive rows of a slot
 * share keys and values.
 */
export interface AttentionSplits extends kernels.SplitRows {
  readonly most: number;
  readonly tileRows: number;
}

/** Norm weights of each head of q and k. */
export interface QkNormValues {
  /** `[head_dim]` f32 */
  readonly query_weight: DeviceBuffer;
  /** `[head_dim]` f32 */
  readonly key_weight: DeviceBuffer;
  readonly eps: number;
}

/** Optional extras of attention. */
export interface AttentionExtras {
  /** Heads are normalized first. */
  readonly norms?: QkNormValues | undefined;
  /** Destination of the result; `out` holds intermediate values. */
  readonly attended?: kernels.AttendedEncoding | undefined;
  /** `[heads]` f32: a score more of each head's softmax, which nothing is added for. */
  readonly sinks?: DeviceBuffer | undefined;
  /** Steps whose rows are not rotated and stored yet; undefined: all. */
  readonly unrotated?: LaunchCondition | undefined;
  /** The layer's keys and values are there already: only q is rotated, and nothing appended. */
  readonly isShared?: true | undefined;
}

/** A way to attend. */
export interface AttentionVariant {
  /** Absent where no context is split. */
  readonly splits: AttentionSplits | undefined;
  /** True if it takes heads to normalize first. */
  readonly normalizes: boolean;
  /** True if it can write what it attends to in the form that products take. */
  readonly writesForms: boolean;
  /** RoPE tables and cache for a product of one row that rotates q and k and stores k and v; undefined or absent: it may not. */
  rotating?(
    layer: LayerCache,
    rope: Rope,
    tables: RopeTables,
    norms: QkNormValues | undefined,
  ): kernels.RotatedHeads | undefined;
  /** Turns q and k, appends k and v to the layer's cache, and attends: qkv → out. */
  record(
    layer: LayerCache,
    rope: Rope,
    tables: RopeTables,
    qkv: DeviceBuffer,
    out: DeviceBuffer,
    extras?: AttentionExtras,
  ): void;
}

/**
 * Causal attention of a step's rows over the paged cache. On a GPU with matrix units few rows are split over many blocks,
 * and many rows share the keys and values of their sequence; a row's bits are the same in either form.
 */
export class PagedAttention implements AttentionVariant {
  private readonly tokens: StepCount;
  /** `[split_rows, heads, splits, 2 + head_dim]`; undefined: row by row. */
  private readonly parts: (kernels.ContextParts & { readonly buffer: DeviceBuffer }) | undefined;

  /** Combination of a row's splits without a launch of their own; undefined: none. */
  private readonly combining: kernels.Combining | undefined;
  /** Attention with heads that tiles are too small for. */
  private readonly large: LargeAttention | undefined;
  private readonly host: HostAttention | undefined;
  /** `[heads]` f32, of layers without sinks. */
  private readonly noSinks: DeviceBuffer | undefined;

  constructor(private readonly site: AttentionSite) {
    const { device, memory, shape, limits, cache } = site;
    this.tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    this.large = LargeAttention.of(site, shape);
    this.host = HostAttention.of(site);
    if (device.isHost || kernels.tileRows(shape, cache.type) === undefined) return;
    const parts = kernels.contextParts(shape, limits.maxContext, limits.maxStepTokens);
    this.parts = { ...parts, buffer: memory.allocate('f32', parts.elements) };
    if (!shape.hasSinks) this.noSinks = memory.upload(new Float32Array(shape.heads).fill(kernels.NO_SINK));
    if (!site.fusions.has(COMBINED_SPLIT) || !this.isFused) return;
    this.combining = {
      arrivals: memory.upload(new Int32Array(shape.kvHeads * kernels.headTiles(shape.heads / shape.kvHeads))),
      combined: { index: COUNT_COMBINED, max: 1 },
      parted: { index: COUNT_PARTED, max: parts.rows },
    };
  }

  get splits(): AttentionSplits | undefined {
    const { shape, cache } = this.site;
    if (this.large !== undefined) return this.large.splits;
    if (this.host !== undefined) return this.host.splits;
    const tileRows = kernels.tileRows(shape, cache.type) as number;
    const promptRows = kernels.promptSplitRows(shape.kvHeads);
    return this.parts && { rows: this.parts.rows, promptRows, most: this.parts.splits, tileRows };
  }

  get normalizes(): boolean {
    const { fusions, cache } = this.site;
    return cache.type !== 'q8_0' && fusions.has(ROTATED_APPEND) && fusions.has(NORMED_APPEND);
  }

  get writesForms(): boolean {
    return this.parts !== undefined && this.isFused;
  }

  /** True if kernels that do more than attention are built for the head size. */
  private get isFused(): boolean {
    return kernels.FUSED_HEAD_DIMS.includes(this.site.shape.headDim);
  }

  record(
    layer: LayerCache,
    rope: Rope,
    ropes: RopeTables,
    qkv: DeviceBuffer,
    out: DeviceBuffer,
    { norms, attended, sinks, unrotated, isShared }: AttentionExtras = {},
  ): void {
    const { tables, plan, shape, limits, cache } = this.site;
    const { headDim, scale, window = 0, softcap = 0 } = shape;
    const { tokens } = this;
    const common = { qkv, ...this.rowsOf(layer) };
    const dims = this.dimsOf(layer);
    const singleToken = isShared ? undefined : this.rotatedSingleToken(rope, ropes, norms);
    if (isShared) rotate(this.site, rope, ropes, qkv, shape.heads);
    else if (this.site.fusions.has(ROTATED_APPEND)) {
      const rotated = { ...common, ...anglesOf(rope, ropes), head_dim: headDim };
      const sizes = { ...dims, tokens, ...this.tableDims(rope) };
      const when = singleToken?.multiToken ?? unrotated;
      if (norms === undefined || cache.type === 'q8_0')
        plan.launch(kernels.ropeKvAppend(cache.type), rotated, sizes, when);
      else plan.launch(kernels.normRopeKvAppend(cache.type), { ...rotated, ...norms }, sizes, when);
    } else {
      rotateAndAppend(this.site, layer, rope, ropes, qkv);
    }
    const values = { ...common, window, scale, out };
    if (this.large !== undefined) {
      this.large.record({ ...values, softcap }, dims);
      return;
    }
    if (this.host !== undefined) {
      this.host.record({ ...values, softcap }, sinks, dims);
      return;
    }
    if (this.parts === undefined || cache.type === 'f32') {
      if (sinks === undefined)
        plan.launch(kernels.attentionPaged(cache.type, headDim), { ...values, softcap }, { ...dims, tokens });
      else plan.launch(kernels.attentionSinks(cache.type, headDim), { ...values, sinks }, { ...dims, tokens });
      return;
    }
    const counts = {
      tokens,
      splitRows: { index: COUNT_SPLIT_ROWS, max: this.parts.rows },
      splits: { index: COUNT_SPLITS, max: this.parts.splits },
      tiles: { index: COUNT_TILES, max: limits.maxStepTokens },
    };
    const launch: Launch = (...launched) => plan.launch(...launched);
    const on = { launch, device: this.site.device.deviceClass };
    const headSinks = sinks ?? (this.noSinks as DeviceBuffer);
    const tileValues = { ...values, softcap, sinks: headSinks, tiles: tables.at('tiles') };
    kernels.launchAttentionTile(on, cache.type, shape, this.parts, counts, tileValues, dims, {
      attended,
      rotated: singleToken,
      combining: this.combining,
    });
  }

  rotating(
    layer: LayerCache,
    rope: Rope,
    ropes: RopeTables,
    norms: QkNormValues | undefined,
  ): kernels.RotatedHeads | undefined {
    const { fusions, cache, shape } = this.site;
    const { headDim: head_dim } = shape;
    if (!fusions.has(ROTATED_PRODUCT) || !fusions.has(ROTATED_APPEND) || cache.type !== 'f16') return undefined;
    // A wave of a product has sixteen outputs: all of a head's, or both of a pair that are far apart, are of several.
    if (norms !== undefined || rope.pairing !== 'interleaved' || !kernels.canRotateHeads(head_dim, rope.dimensions))
      return undefined;
    const { adjacent, ...angles } = anglesOf(rope, ropes);
    return {
      values: { ...this.rowsOf(layer), ...angles, head_dim },
      dims: { ...this.dimsOf(layer), tokens: 1, ...this.tableDims(rope) },
    };
  }

  /** Kernel arguments for the layer's cache, the step's rows and their slots. */
  private rowsOf(layer: LayerCache) {
    const { tables, shape, slots } = this.site;
    return {
      k_cache: layer.k,
      v_cache: layer.v,
      row_position: tables.at('rowPosition'),
      row_slot: tables.at('rowSlot'),
      slots: slotsOf(slots, layer),
      slot_words: slots.arena.slotWords,
      heads: shape.heads,
      kv_heads: shape.kvHeads,
    };
  }

  private dimsOf(layer: LayerCache) {
    return { slot_count: this.site.slots.arena.slots, blocks: layer.blocks };
  }

  private tableDims(rope: Rope) {
    return { max_position: this.site.limits.maxContext, half_rotary: rope.dimensions / 2 };
  }

  /** Rotation of q and k inside attention in single-token steps; undefined: as in all other steps. */
  private rotatedSingleToken(
    rope: Rope,
    ropes: RopeTables,
    norms: QkNormValues | undefined,
  ): kernels.RotatedSingleToken | undefined {
    const { fusions, cache, device } = this.site;
    const isFused = this.isFused && fusions.has(SINGLE_TOKEN) && fusions.has(ROTATED_APPEND);
    if (!isFused || this.parts === undefined || cache.type !== 'f16' || device.deviceClass !== 'portable') {
      return undefined;
    }
    return {
      values: anglesOf(rope, ropes),
      norms,
      dims: this.tableDims(rope),
      singleToken: { count: this.tokens, atLeast: 1, atMost: 1 },
      multiToken: { count: this.tokens, atLeast: 2 },
    };
  }
}
