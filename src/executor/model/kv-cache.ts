import { RocmForgeError } from '../../shared/errors.js';
import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { DeviceBuffer, DeviceScope } from '../device/device.js';
import { HEAD_DIMS, KV_BLOCK_TOKENS } from '../kernels/index.js';

/** Element types of keys and values. */
export type KvCacheType = 'f32' | 'f16';

type CacheShape = Pick<ModelParameters, 'layers' | 'kvHeads' | 'headDim'>;

/** Bytes that one block takes over all layers, keys and values. */
export function kvBlockBytes(model: CacheShape, type: KvCacheType): number {
  return 2 * model.layers * model.kvHeads * KV_BLOCK_TOKENS * model.headDim * (type === 'f32' ? 4 : 2);
}

/** The paged KV cache: keys and values of one layer are `[blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]` each. */
export class KvCache {
  private readonly memory: DeviceScope;
  private readonly layers: readonly { readonly k: DeviceBuffer; readonly v: DeviceBuffer }[];
  readonly bytes: number;

  /**
   * @param within the scope that ends with it at the latest
   * @param blocks with the null block, number 0, that belongs to nobody
   */
  constructor(
    within: DeviceScope,
    model: CacheShape,
    readonly type: KvCacheType,
    readonly blocks: number,
  ) {
    if (!HEAD_DIMS.includes(model.headDim)) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `head_dim ${model.headDim} is not built; built are ${HEAD_DIMS.join(', ')}`,
      );
    }
    this.memory = within.child();
    const elements = blocks * model.kvHeads * KV_BLOCK_TOKENS * model.headDim;
    this.layers = Array.from({ length: model.layers }, () => ({
      k: this.memory.allocate(type, elements),
      v: this.memory.allocate(type, elements),
    }));
    this.bytes = blocks * kvBlockBytes(model, type);
  }

  layer(index: number): { readonly k: DeviceBuffer; readonly v: DeviceBuffer } {
    const layer = this.layers[index];
    if (layer === undefined) throw new RangeError(`layer ${index} of ${this.layers.length}`);
    return layer;
  }

  release(): void {
    this.memory.release();
  }
}
