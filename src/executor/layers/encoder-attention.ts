import { RocmForgeError } from '../../shared/errors.js';
import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import { COUNT_TILES, COUNT_TOKENS } from '../model/step-counts.js';
import type { Attention, EncoderSight } from '../model/values.js';
import type { AttentionSite, RopeTables } from './paged-attention.js';
import { rotate } from './rotate-append.js';

/** Attention of encoders: keys and values are read where the step's products are, and nothing is cached. */
export class EncoderAttention {
  /** Slopes of the heads on the device, `[heads]` f32, of each list that layers have. */
  private readonly slopes = new Map<EncoderSight['slopes'], DeviceBuffer>();

  constructor(private readonly site: Omit<AttentionSite, 'shape'>) {}

  /**
   * Turns q and k, and attends: qkv → out.
   *
   * @throws RocmForgeError `MODEL_UNSUPPORTED` for a head size that there is no attention for; `INVALID_OPTION` for unfused attention
   */
  record(value: Attention, sight: EncoderSight, ropes: RopeTables, qkv: DeviceBuffer, out: DeviceBuffer): void {
    const { device, plan, tables, limits } = this.site;
    const { heads, kvHeads, headDim, rope, scale } = value;
    if (limits.attention === 'unfused')
      throw new RocmForgeError('INVALID_OPTION', 'unfused attention does not apply to encoders');
    if (!kernels.HEAD_DIMS.includes(headDim)) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `head_dim ${headDim} is not supported; supported are ${kernels.HEAD_DIMS.join(', ')}`,
      );
    }
    // All angles are 0 where nothing is rotated.
    if (Number.isFinite(rope.factor)) rotate({ ...this.site, shape: value }, rope, ropes, qkv, heads + kvHeads);
    const values = {
      ...{ qkv, out, row_position: tables.at('rowPosition'), row_end: tables.at('rowEnd') },
      ...{ slopes: this.slopesOf(sight, heads), heads, kv_heads: kvHeads, reach: sight.reach ?? 0, scale },
    };
    const tokens = { index: COUNT_TOKENS, max: limits.maxStepTokens };
    const tiles = { index: COUNT_TILES, max: limits.maxStepTokens };
    const [tiled, dims] = [
      { ...values, tiles: tables.at('tiles') },
      { tokens, tiles },
    ];
    if (!kernels.ENCODER_TILE_HEAD_DIMS.includes(headDim)) {
      plan.launch(kernels.attentionEncoder(headDim), values, { tokens });
    } else if (device.isHost) {
      const { rows, byTiles } = kernels.tilesOrRows(tiles, device.threads, kvHeads);
      if (rows !== undefined) plan.launch(kernels.attentionEncoder(headDim), values, { tokens }, rows);
      plan.launch(kernels.attentionEncoderRows(headDim), tiled, dims, byTiles);
    } else {
      plan.launch(kernels.attentionEncoderTile(headDim), tiled, dims);
    }
  }

  private slopesOf({ slopes }: EncoderSight, heads: number): DeviceBuffer {
    let uploaded = this.slopes.get(slopes);
    if (uploaded === undefined) {
      uploaded = this.site.memory.upload(slopes === undefined ? new Float32Array(heads) : Float32Array.from(slopes));
      this.slopes.set(slopes, uploaded);
    }
    return uploaded;
  }
}
