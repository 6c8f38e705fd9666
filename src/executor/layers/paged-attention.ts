import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import type { LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from '../model/kv-cache.js';
import type { Limits } from '../model/limits.js';
import type { Slots } from '../model/sampling.js';
import { COUNT_SPLITS, COUNT_TILES, COUNT_TOKENS } from '../model/step-counts.js';
import type { StepTables } from '../model/step-tables.js';
import { type Fusion, TURNED_APPEND } from './fusions.js';
import type { Attention, Rope } from './values.js';

/** Memory for the parts of split contexts, and the most rows that are split: more rows fill a device by themselves. */
const PART_BYTES = 64 << 20;
const MOST_SPLIT_ROWS = 64;

/** What attention records its launches with, and for. */
export interface AttentionSite {
  readonly device: Device;
  readonly memory: Allocator;
  readonly plan: LaunchPlanRecorder;
  readonly tables: StepTables;
  readonly slots: Slots;
  readonly shape: Pick<Attention, 'heads' | 'kvHeads' | 'headDim' | 'scale'>;
  readonly limits: Limits;
  readonly cache: KvCache;
  readonly fusions: ReadonlySet<Fusion>;
}

/** Cosines and sines of a {@link Rope}, `[positions, dimensions / 2]` f32 each. */
export interface RopeTables {
  readonly cosine: DeviceBuffer;
  readonly sine: DeviceBuffer;
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
  /** `[split_rows, heads, splits, 2 + head_dim]` */
  private readonly parts: DeviceBuffer | undefined;
  private readonly mostSplits: number;
  private readonly splitRows: number;
  private readonly values: { readonly heads: number; readonly kv_heads: number; readonly scale: number };

  constructor(private readonly site: AttentionSite) {
    const { device, memory, shape, limits, cache } = site;
    const { heads, kvHeads, headDim, scale } = shape;
    this.tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    this.values = { heads, kv_heads: kvHeads, scale };
    this.mostSplits = Math.ceil(limits.maxContext / kernels.ATTENTION_SPLIT);
    const rowBytes = heads * this.mostSplits * (2 + headDim) * 4;
    const most = Math.min(MOST_SPLIT_ROWS, limits.maxStepTokens);
    this.splitRows = Math.max(1, Math.min(most, Math.floor(PART_BYTES / rowBytes)));
    const tiled = !device.isHost && tileRows(shape, cache) !== undefined;
    this.parts = tiled ? memory.allocate('f32', (this.splitRows * rowBytes) / 4) : undefined;
  }

  get splits(): AttentionSplits | undefined {
    return this.parts && { rows: this.splitRows, most: this.mostSplits };
  }

  record({ k, v }: LayerCache, rope: Rope, ropes: RopeTables, qkv: DeviceBuffer, out: DeviceBuffer): void {
    const { tables, plan, shape, limits, cache } = this.site;
    const { headDim } = shape;
    const { tokens } = this;
    const { arena, buffer: slots } = this.site.slots;
    const { heads, kv_heads } = this.values;
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
    const values = { ...common, scale: this.values.scale };
    if (this.parts === undefined) {
      plan.launch(kernels.attentionPaged(cache.type, headDim), { ...values, out }, { ...dims, tokens });
      return;
    }
    const few = { count: tokens, atMost: this.splitRows };
    const fewTokens = { index: COUNT_TOKENS, max: this.splitRows };
    const { parts, mostSplits: splits } = this;
    plan.launch(
      kernels.attentionTileSplit('f16', headDim),
      { ...values, parts, splits },
      { ...dims, tokens: fewTokens, splits: { index: COUNT_SPLITS, max: splits } },
      few,
    );
    plan.launch(
      kernels.attentionCombine,
      { parts, out, row_position: common.row_position, heads, head_dim: headDim, splits },
      { tokens: fewTokens },
      few,
    );
    plan.launch(
      kernels.attentionTile('f16', headDim),
      { ...values, out, tiles: tables.at('tiles') },
      { ...dims, tokens, tiles: { index: COUNT_TILES, max: limits.maxStepTokens } },
      { count: tokens, atLeast: this.splitRows + 1 },
    );
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

/** The most consecutive rows of one slot that share keys and values; undefined where attention is row by row. */
export function tileRows(
  model: Pick<Attention, 'heads' | 'kvHeads' | 'headDim'>,
  cache: Pick<KvCache, 'type'>,
): number | undefined {
  if (cache.type !== 'f16' || !kernels.TILE_HEAD_DIMS.includes(model.headDim)) return undefined;
  const rows = kernels.attentionTileRows(model.headDim, model.heads / model.kvHeads);
  return rows >= 1 ? rows : undefined;
}
