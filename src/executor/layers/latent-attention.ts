import { RocmForgeError } from '../../shared/errors.js';
import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows } from '../kernels/launch-plan.js';
import type { MatrixRef } from '../model/tensors.js';
import { type LatentAttention, type Linear, latentKeyDim } from '../model/values.js';
import { commonSplits, LargeAttention } from './large-attention.js';
import type { AttentionSite, AttentionSplits, RopeTables } from './paged-attention.js';
import type { RecordedModel } from './recorded-model.js';

/**
 * Latent attention in its absorbed form: heads share one key, whose first part is the value, so that grouped attention computes it
 * with one KV head. What heads multiply before and after it are a matrix each, in the layout of
 * the file on every device.
 */
export class LatentAttentionLayers {
  /** `[rows, heads, plain + rotated]` */
  private readonly query: DeviceBuffer;
  /** `[rows, latent + rotated]` */
  private readonly compressed: DeviceBuffer;
  /** Inputs of the heads' products, `[heads, rows, plain]` or `[heads, rows, latent]`: as they are, and quantized. */
  private readonly inputs: DeviceBuffer;
  private readonly quantized: DeviceBuffer;
  /** Queries as the attention kernel reads them, `[rows, heads + 2, latent + rotated]`; it has no use for the two behind. */
  private readonly absorbed: DeviceBuffer;
  /** `[rows, heads, latent + rotated]` */
  private readonly attended: DeviceBuffer;
  /** `[rows, heads, value_dim]` */
  private readonly out: DeviceBuffer;
  /** Attention on matrix units, by the number of heads. */
  private readonly large = new Map<number, LargeAttention>();

  /**
   * @param values at least one
   * @throws RocmForgeError `INVALID_OPTION` with unfused attention
   */
  constructor(
    private readonly site: Omit<AttentionSite, 'shape'>,
    private readonly recorded: Pick<RecordedModel, 'weights' | 'ropes'>,
    values: readonly LatentAttention[],
    private readonly tokens: Rows,
  ) {
    const { memory, limits } = site;
    if (limits.attention === 'unfused')
      throw new RocmForgeError('INVALID_OPTION', 'unfused attention does not support this model’s latent attention', {
        option: 'attention',
      });
    const most = (size: (value: LatentAttention) => number) => limits.maxStepTokens * Math.max(...values.map(size));
    const f32 = (size: (value: LatentAttention) => number) => memory.allocate('f32', most(size));
    this.query = f32(({ heads, plain, rope }) => heads * (plain + rope.dimensions));
    this.compressed = f32(latentKeyDim);
    this.inputs = f32(({ heads, plain, latent }) => heads * Math.max(plain, latent));
    const blocks = ({ plain, latent }: LatentAttention) => Math.ceil(Math.max(plain, latent) / kernels.Q8_BLOCK);
    this.quantized = memory.allocate(
      'u8',
      most((value) => value.heads * blocks(value) * kernels.Q8_BLOCK_BYTES),
    );
    this.absorbed = f32((value) => (value.heads + 2) * latentKeyDim(value));
    this.attended = f32((value) => value.heads * latentKeyDim(value));
    this.out = f32(({ heads, valueDim }) => heads * valueDim);
    for (const value of values) {
      const large =
        this.large.get(value.heads) ??
        LargeAttention.of(site, { heads: value.heads, kvHeads: 1, headDim: latentKeyDim(value) });
      if (large !== undefined) this.large.set(value.heads, large);
    }
  }

  /** Split of attention among blocks; undefined where it is row by row. */
  get splits(): AttentionSplits | undefined {
    return commonSplits([...this.large.values()].map(({ splits }) => splits));
  }

  /** The value's rows in f32. @param product writes the products side by side */
  record(value: LatentAttention, product: (value: Linear, y: DeviceBuffer) => void): DeviceBuffer {
    const { plan, tables, cache } = this.site;
    const { heads, plain, latent, valueDim, rope } = value;
    const layer = cache.layer(value.layer);
    const ropes = this.recorded.ropes.get(rope) as RopeTables;
    const width = latentKeyDim(value);
    const rotation = {
      ...{ cosine: ropes.cosine, sine: ropes.sine, row_position: tables.at('rowPosition') },
      ...{ rotary: rope.dimensions, adjacent: rope.pairing === 'interleaved' ? 1 : 0 },
    };
    const angles = { max_position: this.site.limits.maxContext, half_rotary: rope.dimensions / 2 };
    const { count, present: tokens } = this.tokens;
    const inSlots = { row_slot: tables.at('rowSlot'), slots: this.site.slots.buffer, slot_words: this.slotWords };
    const places = { slot_count: this.site.slots.arena.slots, blocks: layer.blocks };

    product(value.compressed, this.compressed);
    plan.launch(
      kernels.latentAppend(cache.type),
      {
        ...{ x: this.compressed, weight: this.recorded.weights.vector(value.norm), cache: layer.k },
        ...rotation,
        ...inSlots,
        ...{ latent, eps: value.epsilon },
      },
      { tokens: count, kv_heads: 1, ...places, ...angles },
    );
    product(value.query, this.query);
    plan.launch(
      kernels.latentQuery,
      {
        ...{ query: this.query, tokens, plain_parts: this.inputs, absorbed: this.absorbed },
        ...rotation,
        ...{ heads, plain, latent },
      },
      { rows: count, ...angles },
    );
    this.multiplyHeads(value.keys, { y: this.absorbed, stride: (heads + 2) * width, headStride: width });
    if (ropes.queryFactors !== undefined) {
      const values = { qkv: this.absorbed, factors: ropes.queryFactors, row_position: tables.at('rowPosition') };
      plan.launch(
        kernels.scaleQueries,
        { ...values, heads, kv_heads: 1, head_dim: width },
        { tokens: count, max_position: this.site.limits.maxContext },
      );
    }
    const attention = {
      ...{ qkv: this.absorbed, k_cache: layer.k, v_cache: layer.v, out: this.attended },
      ...{ row_position: tables.at('rowPosition'), ...inSlots },
      ...{ heads, kv_heads: 1, window: 0, scale: value.scale, softcap: 0 },
    };
    const large = this.large.get(heads);
    if (large !== undefined) large.record(attention, places);
    else plan.launch(kernels.attentionPaged(cache.type, width), attention, { tokens: count, ...places });
    plan.launch(
      kernels.headsFirst,
      { x: this.attended, y: this.inputs, tokens, heads, width, columns: latent },
      { rows: count },
    );
    this.multiplyHeads(value.values, { y: this.out, stride: heads * valueDim, headStride: valueDim });
    return this.out;
  }

  private get slotWords(): number {
    return this.site.slots.arena.slotWords;
  }

  /** target[t][h] = the head's matrix · inputs[h][t] */
  private multiplyHeads(
    ref: MatrixRef,
    { y, stride: y_stride, headStride: head_stride }: { y: DeviceBuffer; stride: number; headStride: number },
  ): void {
    const { plan, device } = this.site;
    const { type, buffer: weight, rows: out, columns } = this.recorded.weights.table(ref);
    const { count, present: tokens } = this.tokens;
    const heads = ref.experts as number;
    const target = { y, tokens, out, y_stride, head_stride };
    const dims = { rows: count, heads };
    if (!device.isHost && kernels.isHeadsTile(type, out, columns)) {
      const blocks = kernels.isBlockType(type) ? columns / kernels.blockFormat(type).blockElements : 0;
      plan.launch(
        kernels.matmulHeadsTile(type),
        { weight, x: this.inputs, ...target, in: columns },
        { ...dims, blocks },
      );
      return;
    }
    if (!kernels.isBlockType(type)) {
      plan.launch(kernels.matmulHeads(type), { weight, x: this.inputs, ...target, in: columns }, dims);
      return;
    }
    const rows = { ...count, max: count.max * heads, times: heads };
    const quantized = { x: this.inputs, y: this.quantized, in: columns };
    plan.launch(kernels.quantizeQ8, quantized, { rows, blocks: columns / kernels.Q8_BLOCK });
    const blocks = columns / kernels.blockFormat(type).blockElements;
    plan.launch(kernels.matmulQuantizedHeads(type), { weight, x: this.quantized, ...target, blocks }, dims);
  }
}
