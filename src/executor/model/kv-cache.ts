import { RocmForgeError } from '../../shared/errors.js';
import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { DeviceBuffer, DeviceScope } from '../device/device.js';
import { cacheDtype, cacheElements, HEAD_DIMS, KV_Q8_HEAD_DIMS, type KvCacheType } from '../kernels/index.js';
import type { Limits } from './limits.js';

type CacheShape = Pick<ModelParameters, 'layers' | 'kvHeads' | 'headDim'>;

const ELEMENT_BYTES = { f32: 4, f16: 2, u8: 1 } as const;

/** Bytes that one block takes over all layers, keys and values. */
export function kvBlockBytes({ layers, kvHeads, headDim }: CacheShape, type: KvCacheType): number {
  return 2 * layers * cacheElements(type, 1, kvHeads, headDim) * ELEMENT_BYTES[cacheDtype(type)];
}

/**
 * Refuses a cache that attention has no kernels for; they are the same on every device.
 *
 * @throws RocmForgeError `MODEL_UNSUPPORTED` for a head size that there is no attention for; `INVALID_OPTION` for a type of cache that this model, or this form of attention, cannot have, where another can be chosen
 */
export function checkKvCache(
  { architecture, headDim }: Pick<ModelParameters, 'architecture' | 'headDim'>,
  { kvCacheType, attention }: Pick<Limits, 'kvCacheType' | 'attention'>,
): void {
  if (!HEAD_DIMS.includes(headDim)) {
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `head_dim ${headDim} is not built; built are ${HEAD_DIMS.join(', ')}`,
    );
  }
  if (kvCacheType !== 'q8_0') return;
  const otherwise = 'take f16 or f32';
  if (!KV_Q8_HEAD_DIMS.includes(headDim)) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `this ${architecture} has heads of ${headDim} elements; a KV cache in q8_0 holds heads of ` +
        `${KV_Q8_HEAD_DIMS.join(', ')}: ${otherwise}`,
      { option: 'kv-cache-type' },
    );
  }
  if (attention === 'unfused') {
    throw new RocmForgeError('INVALID_OPTION', `unfused attention reads no KV cache in q8_0: ${otherwise}`, {
      option: 'kv-cache-type',
    });
  }
}

/** The paged KV cache: keys and values of one layer are `[blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]` each, in q8_0 as {@link cacheElements} says. */
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
    this.memory = within.child();
    const elements = cacheElements(type, blocks, model.kvHeads, model.headDim);
    const dtype = cacheDtype(type);
    this.layers = Array.from({ length: model.layers }, () => ({
      k: this.memory.allocate(dtype, elements),
      v: this.memory.allocate(dtype, elements),
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
