import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import { RocmForgeError } from '../../shared/errors.js';
import { type DeviceBuffer, type DeviceScope, DTYPE_BYTES } from '../device/device.js';
import {
  cacheDtype,
  cacheElements,
  KV_Q8_HEAD_DIMS,
  type KvCacheType,
  PAGED_HEAD_DIMS,
  rowWordsOf,
} from '../kernels/index.js';
import type { Limits } from './limits.js';
import type { HeadShape } from './values.js';

const ELEMENT_BYTES = { f32: 4, f16: 2, u8: 1 } as const;

/** Bytes that one block takes over layers of such heads, keys and values. */
export function kvBlockBytes(layers: Iterable<HeadShape>, type: KvCacheType): number {
  let elements = 0;
  for (const { kvHeads, headDim, hasKeysAlone } of layers)
    elements += (hasKeysAlone ? 1 : 2) * cacheElements(type, 1, kvHeads, headDim);
  return elements * ELEMENT_BYTES[cacheDtype(type)];
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
  if (!PAGED_HEAD_DIMS.includes(headDim)) {
    throw new RocmForgeError(
      'MODEL_UNSUPPORTED',
      `head_dim ${headDim} is not supported; supported are ${PAGED_HEAD_DIMS.join(', ')}`,
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

/**
 * Keys and values of one layer, `[blocks, kv_heads, KV_BLOCK_TOKENS, head_dim]` each, in q8_0 as {@link cacheElements} says. Where keys
 * are values too, both are one buffer.
 */
export interface LayerCache {
  readonly k: DeviceBuffer;
  readonly v: DeviceBuffer;
  readonly blocks: number;
  /** Which of a slot's two block tables leads to its blocks. */
  readonly isSlidingWindow: boolean;
  /** {@link BlockPart.rowWords} */
  readonly rowWords: readonly [number, number] | undefined;
}

/** A buffer that holds a part of each block, one block behind the other. */
export interface BlockPart {
  /** That of block 0. */
  readonly address: number;
  /** Size of a block's part. */
  readonly bytes: number;
  /** Words of a row of one head, its elements and its scales; absent where a row has no whole words. */
  readonly rowWords?: readonly [elements: number, scales: number];
}

/** Layers that have blocks of their own, of which those leave that no later position sees. */
export interface WindowedBlocks {
  readonly layers: ReadonlySet<number>;
  /** With a null block, as the others. */
  readonly blocks: number;
}

/** Bytes of each allocation of a cache, in their order. Arguments as {@link KvCache} has them. */
export function cacheSizes(
  shapes: ReadonlyMap<number, HeadShape>,
  type: KvCacheType,
  blocks: number,
  windowed?: WindowedBlocks,
): readonly number[] {
  return Array.from(shapes).flatMap(([layer, { kvHeads, headDim, hasKeysAlone }]) => {
    const count = windowed?.layers.has(layer) ? windowed.blocks : blocks;
    const bytes = cacheElements(type, count, kvHeads, headDim) * ELEMENT_BYTES[cacheDtype(type)];
    return hasKeysAlone ? [bytes] : [bytes, bytes];
  });
}

/** The paged KV cache: one pool of blocks for the layers that see everything, one for those that see a window. */
export class KvCache {
  private readonly memory: DeviceScope;
  private readonly layers: ReadonlyMap<number, LayerCache>;
  /** Bytes of one block over the layers that see everything, and over those with a window. */
  readonly blockBytes: number;
  readonly windowedBlockBytes: number;
  readonly bytes: number;

  /**
   * @param within the scope that ends with it at the latest
   * @param blocks with the null block, number 0, that belongs to nobody
   * @param shapes of the layers that are kept here
   */
  constructor(
    within: DeviceScope,
    shapes: ReadonlyMap<number, HeadShape>,
    readonly type: KvCacheType,
    blocks: number,
    windowed?: WindowedBlocks,
  ) {
    this.memory = within.child();
    const allocated = Array.from(shapes, ([layer, { kvHeads, headDim, hasKeysAlone }]): [number, LayerCache] => {
      const isSlidingWindow = windowed?.layers.has(layer) ?? false;
      const count = isSlidingWindow ? (windowed as WindowedBlocks).blocks : blocks;
      const elements = cacheElements(type, count, kvHeads, headDim);
      const allocate = () => this.memory.allocateKept(cacheDtype(type), elements);
      const k = allocate();
      const rowWords = rowWordsOf(type, headDim);
      return [layer, { k, v: hasKeysAlone ? k : allocate(), blocks: count, isSlidingWindow, rowWords }];
    });
    this.layers = new Map(allocated);
    const bytesOf = (ofWindowed: boolean) => {
      const own = allocated.filter(([, { isSlidingWindow }]) => isSlidingWindow === ofWindowed);
      return kvBlockBytes(
        own.map(([layer]) => shapes.get(layer) as HeadShape),
        type,
      );
    };
    this.blockBytes = bytesOf(false);
    this.windowedBlockBytes = bytesOf(true);
    this.bytes = blocks * this.blockBytes + (windowed?.blocks ?? 0) * this.windowedBlockBytes;
  }

  layer(index: number): LayerCache {
    const layer = this.layers.get(index);
    if (layer === undefined) throw new RangeError(`layer ${index} is none of ${[...this.layers.keys()].join(', ')}`);
    return layer;
  }

  /** Memory of the blocks of some layers: of those that see everything, and of those that see a window. */
  partsOf(layers: Iterable<number>): Readonly<Record<'blocks' | 'windowBlocks', readonly BlockPart[]>> {
    const caches = Array.from(layers, (index) => this.layer(index));
    const of = (ofWindowed: boolean): readonly BlockPart[] =>
      caches
        .filter(({ isSlidingWindow }) => isSlidingWindow === ofWindowed)
        .flatMap(({ k, v, blocks, rowWords }) =>
          [...new Set([k, v])].map(({ address, dtype, elements }) => {
            const bytes = (DTYPE_BYTES[dtype] * elements) / blocks;
            return { address, bytes, ...(rowWords && { rowWords }) };
          }),
        );
    return { blocks: of(false), windowBlocks: of(true) };
  }

  release(): void {
    this.memory.release();
  }
}
