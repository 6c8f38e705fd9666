import { RocmForgeError } from '../../shared/errors.js';
import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { DeviceBuffer, DeviceScope } from '../device/device.js';
import { HEAD_DIMS, KV_BLOCK_TOKENS } from '../kernels/index.js';

/** Element types of keys and values. */
export type KvCacheType = 'f32' | 'f16';

type CacheShape = Pick<ModelParameters, 'layers' | 'kvHeads' | 'headDim'>;

/** Bytes that one block takes over so many layers, keys and values. */
export function kvBlockBytes(model: CacheShape, type: KvCacheType): number {
  return 2 * model.layers * model.kvHeads * KV_BLOCK_TOKENS * model.headDim * (type === 'f32' ? 4 : 2);
}

/** Keys and values of one layer, `[blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]` each. */
export interface LayerCache {
  readonly k: DeviceBuffer;
  readonly v: DeviceBuffer;
  readonly blocks: number;
  /** Which of a slot's two block tables leads to its blocks. */
  readonly isWindowed: boolean;
}

/** Layers that have blocks of their own, of which those leave that no later position sees. */
export interface WindowedBlocks {
  readonly layers: ReadonlySet<number>;
  /** With a null block, as the others. */
  readonly blocks: number;
}

/** The paged KV cache: one pool of blocks for the layers that see everything, one for those that see a window. */
export class KvCache {
  private readonly memory: DeviceScope;
  private readonly layers: readonly LayerCache[];
  /** Of one block over the layers that see everything, and over those with a window. */
  readonly blockBytes: number;
  readonly windowedBlockBytes: number;
  readonly bytes: number;

  /**
   * @param within the scope that ends with it at the latest
   * @param blocks with the null block, number 0, that belongs to nobody
   */
  constructor(
    within: DeviceScope,
    model: CacheShape,
    readonly type: KvCacheType,
    blocks: number,
    windowed?: WindowedBlocks,
  ) {
    if (!HEAD_DIMS.includes(model.headDim)) {
      throw new RocmForgeError(
        'MODEL_UNSUPPORTED',
        `head_dim ${model.headDim} is not built; built are ${HEAD_DIMS.join(', ')}`,
      );
    }
    this.memory = within.child();
    const blockElements = model.kvHeads * KV_BLOCK_TOKENS * model.headDim;
    this.layers = Array.from({ length: model.layers }, (_, layer) => {
      const isWindowed = windowed?.layers.has(layer) ?? false;
      const own = isWindowed ? (windowed as WindowedBlocks).blocks : blocks;
      const allocate = () => this.memory.allocate(type, own * blockElements);
      return { k: allocate(), v: allocate(), blocks: own, isWindowed };
    });
    const windowedLayers = this.layers.filter(({ isWindowed }) => isWindowed).length;
    this.blockBytes = kvBlockBytes({ ...model, layers: model.layers - windowedLayers }, type);
    this.windowedBlockBytes = kvBlockBytes({ ...model, layers: windowedLayers }, type);
    this.bytes = blocks * this.blockBytes + (windowed?.blocks ?? 0) * this.windowedBlockBytes;
  }

  layer(index: number): LayerCache {
    const layer = this.layers[index];
    if (layer === undefined) throw new RangeError(`layer ${index} of ${this.layers.length}`);
    return layer;
  }

  release(): void {
    this.memory.release();
  }
}
