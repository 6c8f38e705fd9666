import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { Allocator, Device, DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/contracts/index.js';
import type { LaunchPlanRecorder, StepCount } from '../kernels/launch-plan.js';
import type { KvCache } from './kv-cache.js';
import type { Limits } from './limits.js';
import type { Slots } from './sampling.js';
import { COUNT_SPLITS, COUNT_TILES, COUNT_TOKENS } from './step-counts.js';
import type { StepTables } from './step-tables.js';

/** Memory for the parts of split contexts, and the most rows that are split: more rows fill a device by themselves. */
const PART_BYTES = 64 << 20;
const MOST_SPLIT_ROWS = 64;

/**
 * Causal attention of a step's rows over the paged cache. On a GPU with matrix units few rows are split over many blocks,
 * and many rows share the keys and values of their sequence; a row's bits are the same in either form.
 */
export class PagedAttention {
  private readonly tokens: StepCount;
  private readonly tiled: boolean;
  /** `[split_rows, heads, splits, 2 + head_dim]` */
  private readonly parts: DeviceBuffer | undefined;
  private readonly splits: number;
  private readonly splitRows: number;
  private readonly values: { readonly heads: number; readonly kv_heads: number; readonly scale: number };

  constructor(
    device: Device,
    memory: Allocator,
    private readonly plan: LaunchPlanRecorder,
    private readonly tables: StepTables,
    private readonly slots: Slots,
    private readonly model: ModelParameters,
    private readonly limits: Limits,
    private readonly cache: KvCache,
  ) {
    const { heads, kvHeads, headDim } = model;
    this.tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    this.values = { heads, kv_heads: kvHeads, scale: 1 / Math.sqrt(headDim) };
    this.tiled = !device.isHost && tileRows(model, cache) !== undefined;
    this.splits = Math.ceil(limits.maxContext / kernels.ATTENTION_SPLIT);
    const rowBytes = heads * this.splits * (2 + headDim) * 4;
    const most = Math.min(MOST_SPLIT_ROWS, limits.maxStepTokens);
    this.splitRows = Math.max(1, Math.min(most, Math.floor(PART_BYTES / rowBytes)));
    this.parts = this.tiled ? memory.allocate('f32', (this.splitRows * rowBytes) / 4) : undefined;
  }

  /** qkv → out, over one layer's cache. */
  record(layer: { readonly k: DeviceBuffer; readonly v: DeviceBuffer }, qkv: DeviceBuffer, out: DeviceBuffer): void {
    const { headDim } = this.model;
    const { tables, tokens, plan } = this;
    const { arena, buffer: slots } = this.slots;
    const common = {
      qkv,
      k_cache: layer.k,
      v_cache: layer.v,
      row_position: tables.at('rowPosition'),
      row_slot: tables.at('rowSlot'),
      slots,
      slot_words: arena.slotWords,
      ...this.values,
    };
    const dims = { slot_count: arena.slots, blocks: this.cache.blocks };
    if (this.parts === undefined) {
      plan.launch(kernels.attentionPaged(this.cache.type, headDim), { ...common, out }, { ...dims, tokens });
      return;
    }
    const few = { count: tokens, atMost: this.splitRows };
    const fewTokens = { index: COUNT_TOKENS, max: this.splitRows };
    const { heads } = this.values;
    const { parts, splits } = this;
    plan.launch(
      kernels.attentionTileSplit('f16', headDim),
      { ...common, parts, splits },
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
      { ...common, out, tiles: tables.at('tiles') },
      { ...dims, tokens, tiles: { index: COUNT_TILES, max: this.limits.maxStepTokens } },
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
