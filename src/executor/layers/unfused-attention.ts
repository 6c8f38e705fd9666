import { bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LayerCache } from '../model/kv-cache.js';
import { COUNT_TOKENS } from '../model/step-counts.js';
import type { Rope } from '../model/values.js';
import type { AttentionExtras, AttentionSite, AttentionVariant, RopeTables } from './paged-attention.js';
import { rotate, rotateAndAppend } from './rotate-append.js';

/** Memory for the scores of a group of rows; groups take their turns in it. */
const SCORE_BYTES = 64 << 20;

/**
 * Attention written out: one kernel an operation, every score in memory. Slow and plain, to hold the fused kernels
 * against. It weighs what a window hides by 0, and so needs all blocks: those of layers with a window stay, too.
 */
export class UnfusedAttention implements AttentionVariant {
  readonly splits = undefined;
  readonly normalizes = false;
  readonly writesForms = false;
  private readonly groupRows: number;
  /** `[group_rows, heads, max_context]` */
  private readonly scores: DeviceBuffer;

  constructor(private readonly site: AttentionSite) {
    const { memory, shape, limits } = site;
    const rowElements = shape.heads * limits.maxContext;
    this.groupRows = Math.max(1, Math.min(limits.maxStepTokens, Math.floor(SCORE_BYTES / 4 / rowElements)));
    this.scores = memory.allocate('f32', this.groupRows * rowElements);
  }

  record(
    layer: LayerCache,
    rope: Rope,
    ropes: RopeTables,
    qkv: DeviceBuffer,
    out: DeviceBuffer,
    { isShared }: AttentionExtras = {},
  ): void {
    const { plan, tables, limits, cache } = this.site;
    const { arena, buffer: slots } = this.site.slots;
    const { heads, kvHeads, headDim, scale, window = 0, softcap } = this.site.shape;
    const columns = limits.maxContext;
    // A load refuses it with any other.
    const type = cache.type as kernels.FloatType;
    const row_position = tables.at('rowPosition');
    const rows = { row_position, row_slot: tables.at('rowSlot'), slots, slot_words: arena.slotWords };
    const { k, v, blocks } = layer;
    const dims = { slot_count: arena.slots, blocks };
    const shape = { heads, kv_heads: kvHeads, head_dim: headDim };
    if (isShared) rotate(this.site, rope, ropes, qkv, heads);
    else rotateAndAppend(this.site, layer, rope, ropes, qkv);
    const { scores } = this;
    for (let first = 0; first < limits.maxStepTokens; first += this.groupRows) {
      const max = Math.min(this.groupRows, limits.maxStepTokens - first);
      const group = { index: COUNT_TOKENS, first, max };
      const vectors = { index: COUNT_TOKENS, first, max: max * heads, times: heads };
      const positions = bufferFrom(row_position, first);
      const groupRows = { ...rows, row_position: positions, row_slot: bufferFrom(rows.row_slot, first) };
      const sizes = { ...shape, columns };
      const groupDims = { ...dims, tokens: group };
      const [q, attended] = [bufferFrom(qkv, first * (heads + 2 * kvHeads) * headDim), first * heads * headDim];
      plan.launch(kernels.qktMatmulPaged(type), { qkv: q, k_cache: k, scores, ...groupRows, ...sizes }, groupDims);
      plan.launch(kernels.scale('f32'), { x: scores, columns, factor: scale }, { rows: vectors });
      if (softcap !== undefined) plan.launch(kernels.softcap, { x: scores, columns, cap: softcap }, { rows: vectors });
      // Rows of a step are of many sequences: mask masks by each row's own position, where causal_mask would by the row.
      plan.launch(
        kernels.mask('f32'),
        { scores, row_position: positions, heads, columns, window, value: Number.NEGATIVE_INFINITY },
        { rows: group },
      );
      plan.launch(kernels.softmax('f32'), { x: scores, y: scores, columns }, { rows: vectors });
      plan.launch(
        kernels.weightedMatmulPaged(type),
        { weights: scores, v_cache: v, out: bufferFrom(out, attended), ...groupRows, ...sizes },
        groupDims,
      );
    }
  }
}
