import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Launch, LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Slots } from '../model/sampling.js';
import { COUNT_SPLIT_ROWS, COUNT_SPLITS, COUNT_TILES, COUNT_TOKENS } from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';
import type { Attention, Rope } from '../model/values.js';
import { type Fusion, TURNED_APPEND } from './fusions.js';

/** What attention records its launches with, and for. */
export interface AttentionSite {
  readonly device: Device;
  readonly memory: Allocator;
  readonly plan: LaunchPlanRecorder;
  readonly tables: StepTables;
  readonly slots: Slots;
  readonly shape: Pick<Attention, 'heads' | 'kvHeads' | 'headDim' | 'scale' | 'window' | 'softcap'>;
  readonly limits: Limits;
  readonly cache: KvCache;
  readonly fusions: ReadonlySet<Fusion>;
}

/** Cosines and sines of a {@link Rope}, `[positions, dimensions / 2]` f32 each. */
export interface RopeTables {
  readonly cosine: DeviceBuffer;
  readonly sine: DeviceBuffer;
  /** What queries are multiplied by, `[positions]`; undefined: nothing. */
  readonly queryFactors: DeviceBuffer | undefined;
}

/** Keys and values of one layer. */
export interface LayerCache {
  readonly k: DeviceBuffer;
  readonly v: DeviceBuffer;
}

/** Steps of at most `rows` rows split each context into parts, of which the longest has `most`. */
export interface AttentionSplits {
  readonly rows: number;
  readonly most: number;
}

/** A way to attend. */
export interface AttentionForm {
  /** Absent where no context is split. */
  readonly splits: AttentionSplits | undefined;
  /** Turns q and k, appends k and v to the layer's cache, and attends: qkv → out. */
  record(layer: LayerCache, rope: Rope, tables: RopeTables, qkv: DeviceBuffer, out: DeviceBuffer): void;
}

/**
 * Causal attention of a step's rows over the paged cache. On a GPU with matrix units few rows are split over many blocks,
 * and many rows share the keys and values of their sequence; a row's bits are the same in either form.
 */
export class PagedAttention implements AttentionForm {
  private readonly tokens: StepCount;
  /** `[split_rows, heads, splits, 2 + head_dim]`; undefined: row by row. */
  private readonly parts: (kernels.ContextParts & { readonly buffer: DeviceBuffer }) | undefined;

  constructor(private readonly site: AttentionSite) {
    const { device, memory, shape, limits, cache } = site;
    this.tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    if (device.isHost || kernels.tileRows(shape, cache.type) === undefined) return;
    const parts = kernels.contextParts(shape, limits.maxContext, limits.maxStepTokens);
    this.parts = { ...parts, buffer: memory.allocate('f32', parts.elements) };
  }

  get splits(): AttentionSplits | undefined {
    return this.parts && { rows: this.parts.rows, most: this.parts.splits };
  }

  record({ k, v }: LayerCache, rope: Rope, ropes: RopeTables, qkv: DeviceBuffer, out: DeviceBuffer): void {
    const { tables, plan, shape, limits, cache } = this.site;
    const { heads, kvHeads: kv_heads, headDim, scale, window = 0, softcap = 0 } = shape;
    const { tokens } = this;
    const { arena, buffer: slots } = this.site.slots;
    const common = {
      qkv,
      k_cache: k,
      v_cache: v,
      row_position: tables.at('rowPosition'),
      row_slot: tables.at('rowSlot'),
      slots,
      slot_words: arena.slotWords,
      heads,
      kv_heads,
    };
    const dims = { slot_count: arena.slots, blocks: cache.blocks };
    if (this.site.fusions.has(TURNED_APPEND)) {
      plan.launch(
        kernels.ropeKvAppend(cache.type),
        {
          ...common,
          cosine: ropes.cosine,
          sine: ropes.sine,
          head_dim: headDim,
          rotary: rope.dimensions,
          adjacent: rope.pairing === 'adjacent' ? 1 : 0,
        },
        { ...dims, tokens, max_position: limits.maxContext, half_rotary: rope.dimensions / 2 },
      );
    } else {
      turnAndAppend(this.site, { k, v }, rope, ropes, qkv);
    }
    const values = { ...common, scale, out };
    if (this.parts === undefined || cache.type === 'f32') {
      plan.launch(kernels.attentionPaged(cache.type, headDim), { ...values, window, softcap }, { ...dims, tokens });
      return;
    }
    const counts = {
      tokens,
      splitRows: { index: COUNT_SPLIT_ROWS, max: this.parts.rows },
      splits: { index: COUNT_SPLITS, max: this.parts.splits },
      tiles: { index: COUNT_TILES, max: limits.maxStepTokens },
    };
    const launch: Launch = (...launched) => plan.launch(...launched);
    const tileValues = { ...values, tiles: tables.at('tiles') };
    kernels.launchAttentionTile(launch, cache.type, shape, this.parts, counts, tileValues, dims);
  }
}

/** RoPE and the append to the cache, a launch each. */
export function turnAndAppend(
  { tables, plan, shape, limits, cache, slots }: AttentionSite,
  { k, v }: LayerCache,
  rope: Rope,
  ropes: RopeTables,
  qkv: DeviceBuffer,
): void {
  const { heads, kvHeads, headDim } = shape;
  const tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
  const row_position = tables.at('rowPosition');
  plan.launch(
    kernels.rope,
    {
      x: qkv,
      cosine: ropes.cosine,
      sine: ropes.sine,
      row_position,
      row_heads: heads + 2 * kvHeads,
      head_dim: headDim,
      rotary: rope.dimensions,
      adjacent: rope.pairing === 'adjacent' ? 1 : 0,
    },
    { heads: heads + kvHeads, tokens, max_position: limits.maxContext, half_rotary: rope.dimensions / 2 },
  );
  plan.launch(
    kernels.kvAppend(cache.type),
    {
      qkv,
      k_cache: k,
      v_cache: v,
      row_position,
      row_slot: tables.at('rowSlot'),
      slots: slots.buffer,
      slot_words: slots.arena.slotWords,
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
    },
    { slot_count: slots.arena.slots, blocks: cache.blocks, tokens },
  );
}
