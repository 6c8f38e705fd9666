import { bufferFrom, type DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LayerCache } from '../model/kv-cache.js';
import type { Slots } from '../model/sampling.js';
import { COUNT_TOKENS } from '../model/step-counts.js';
import type { Rope } from '../model/values.js';
import type { AttentionSite, RopeTables } from './paged-attention.js';

/** Rotation tables of heads. */
export const anglesOf = ({ dimensions: rotary, pairing }: Rope, { cosine, sine }: RopeTables) => ({
  cosine,
  sine,
  rotary,
  adjacent: pairing === 'interleaved' ? 1 : 0,
});

/** The slots as kernels of a layer see them: from where the block table they read is at its place. */
export function slotsOf({ buffer, arena }: Slots, { isSlidingWindow }: LayerCache): DeviceBuffer {
  return isSlidingWindow ? bufferFrom(buffer, arena.windowTable) : buffer;
}

/** RoPE of the first heads of each row. */
export function rotate(
  { tables, plan, shape, limits }: AttentionSite,
  rope: Rope,
  ropes: RopeTables,
  qkv: DeviceBuffer,
  heads: number,
): void {
  const { kvHeads, headDim: head_dim } = shape;
  plan.launch(
    kernels.rope,
    {
      x: qkv,
      ...anglesOf(rope, ropes),
      row_position: tables.at('rowPosition'),
      row_heads: shape.heads + 2 * kvHeads,
      head_dim,
    },
    {
      heads,
      tokens: { index: COUNT_TOKENS, max: limits.maxStepTokens },
      max_position: limits.maxContext,
      half_rotary: rope.dimensions / 2,
    },
  );
}

/** RoPE and the append to the cache, a launch each. */
export function rotateAndAppend(
  site: AttentionSite,
  layer: LayerCache,
  rope: Rope,
  ropes: RopeTables,
  qkv: DeviceBuffer,
): void {
  const { tables, plan, shape, limits, cache, slots } = site;
  const { heads, kvHeads, headDim } = shape;
  rotate(site, rope, ropes, qkv, heads + kvHeads);
  plan.launch(
    kernels.kvAppend(cache.type),
    {
      qkv,
      k_cache: layer.k,
      v_cache: layer.v,
      row_position: tables.at('rowPosition'),
      row_slot: tables.at('rowSlot'),
      slots: slotsOf(slots, layer),
      slot_words: slots.arena.slotWords,
      heads,
      kv_heads: kvHeads,
      head_dim: headDim,
    },
    {
      slot_count: slots.arena.slots,
      blocks: layer.blocks,
      tokens: { index: COUNT_TOKENS, max: limits.maxStepTokens },
    },
  );
}
