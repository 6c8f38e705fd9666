import type { ArchitectureKeys } from './architecture-keys.js';
import type { ModelParameters } from './model-parameters.js';

/** Shape of one of a model's layers, where they differ. */
export interface LayerShape {
  readonly kvHeads: number;
  readonly headDim: number;
  /** Width between the up and down projection of its FFN. */
  readonly ffnSize: number;
  /** The earlier layer whose keys and values it attends to; absent: it has its own. */
  readonly sharedWith?: number;
}

/**
 * Shapes of a Gemma's layers: windowed ones have heads of their own size and number, and the last `shared_kv_layers` attend to
 * the keys and values of the last layer of their kind before them.
 *
 * @param windowed which layers have a window
 * @throws GgufError `GGUF_INVALID` for counts that contradict each other; `MODEL_UNSUPPORTED` for value heads unlike key
 *         heads
 */
export function readGemmaShapes(
  keys: ArchitectureKeys,
  { layers, heads, headDim, ropeDimensions }: ModelParameters,
  windowed: readonly boolean[],
): { readonly shapes: readonly LayerShape[]; readonly ropeDimensions: number } {
  const windowedDim = keys.optionalCount('attention.key_length_swa') ?? headDim;
  const valueDim = keys.optionalCount('attention.value_length_swa') ?? windowedDim;
  if (valueDim !== windowedDim)
    keys.unsupported('attention.value_length_swa', `is ${valueDim}, unlike the key heads of ${windowedDim}`);
  const rotated = keys.optionalCount('rope.dimension_count_swa') ?? Math.min(ropeDimensions, windowedDim);
  if (rotated > windowedDim || rotated % 2 !== 0)
    keys.fail('rope.dimension_count_swa', `is ${rotated}, not an even number up to head_dim ${windowedDim}`);
  const kvHeads = keys.layerCounts('attention.head_count_kv', layers);
  const ffnSizes = keys.layerCounts('feed_forward_length', layers);
  const shared = keys.countOrNone('attention.shared_kv_layers');
  if (shared >= layers) keys.fail('attention.shared_kv_layers', `is ${shared} of ${layers} layers`);
  const own = layers - shared;
  const shapes = windowed.map((isSlidingWindow, layer): LayerShape => {
    const [count, ffnSize] = [kvHeads[layer] as number, ffnSizes[layer] as number];
    if (count === 0 || heads % count !== 0)
      keys.fail('attention.head_count_kv', `has ${count}, which does not divide the ${heads} query heads`);
    if (ffnSize === 0) keys.fail('feed_forward_length', `has 0 of layer ${layer}`);
    const shape = { kvHeads: count, headDim: isSlidingWindow ? windowedDim : headDim, ffnSize };
    if (layer < own) return shape;
    const sharedWith = windowed.lastIndexOf(isSlidingWindow, own - 1);
    if (sharedWith < 0 || kvHeads[sharedWith] !== count)
      keys.fail(
        'attention.shared_kv_layers',
        `is ${shared}, but no layer before has the keys and values of layer ${layer}`,
      );
    return { ...shape, sharedWith };
  });
  return { shapes, ropeDimensions: rotated };
}
