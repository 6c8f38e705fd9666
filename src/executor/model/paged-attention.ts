import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import type { LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { Rope } from './forward-pass.js';
import type { KvCache } from './kv-cache.js';
import type { Limits } from './limits.js';
import type { Slots } from './sampling.js';
import { COUNT_SPLITS, COUNT_TILES, COUNT_TOKENS } from './step-counts.js';
import type { StepTables } from './step-tables.js';

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
  readonly model: ModelParameters;
  readonly limits: Limits;
  readonly cache: KvCache;
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
  /** Rotates q and k, appends k and v to the layer's cache, and attends: qkv → out. */
  record(layer: LayerCache, rope: Rope, qkv: DeviceBuffer, out: DeviceBuffer): void;
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
    const { device, memory, model, limits, cache } = site;
    const { heads, kvHeads, headDim } = model;
    this.tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    this.values = { heads, kv_heads: kvHeads, scale: 1 / Math.sqrt(headDim) };
    this.mostSplits = Math.ceil(limits.maxContext / kernels.ATTENTION_SPLIT);
    const rowBytes = heads * this.mostSplits * (2 + headDim) * 4;
    const most = Math.min(MOST_SPLIT_ROWS, limits.maxStepTokens);
    this.splitRows = Math.max(1, Math.min(most, Math.floor(PART_BYTES / rowBytes)));
    const tiled = !device.isHost && tileRows(model, cache) !== undefined;
    this.parts = tiled ? memory.allocate('f32', (this.splitRows * rowBytes) / 4) : undefined;
  }

  get splits(): AttentionSplits | undefined {
    return this.parts && { rows: this.splitRows, most: this.mostSplits };
  }

  record({ k, v }: LayerCache, rope: Rope, qkv: DeviceBuffer, out: DeviceBuffer): void {
    const { tables, plan, model, limits, cache } = this.site;
    const { headDim, ropeDimensions } = model;
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
    plan.launch(
      kernels.ropeKvAppend(cache.type),
      {
        ...common,
        cosine: rope.cosine,
        sine: rope.sine,
        head_dim: headDim,
        rotary: ropeDimensions,
        adjacent: rope.pairing === 'adjacent' ? 1 : 0,
      },
      { ...dims, tokens, max_position: limits.maxContext, half_rotary: ropeDimensions / 2 },
    );
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

/** The most consecutive rows of one slot that share keys and values; undefined where attention is row by row. */
export function tileRows(
  model: Pick<ModelParameters, 'heads' | 'kvHeads' | 'headDim'>,
  cache: Pick<KvCache, 'type'>,
): number | undefined {
  if (cache.type !== 'f16' || !kernels.TILE_HEAD_DIMS.includes(model.headDim)) return undefined;
  const rows = kernels.attentionTileRows(model.headDim, model.heads / model.kvHeads);
  return rows >= 1 ? rows : undefined;
}
