import type { ArchitectureKeys } from './architecture-keys.js';
import type { Traits, Window } from './architecture-traits.js';
import { readGemmaShapes } from './layer-shapes.js';
import type { ModelParameters } from './model-parameters.js';

/** Streams of AltUp; converters write no other number. */
const STREAMS = 4;

/** Layers with sparse gates and the quantile of their share, 0.95: what llama.cpp computes, whatever a file says. */
const SPARSE_LAYERS = 10;
const SPARSE_DEVIATIONS = 1.6448533535003662;

/**
 * Gemma 3n's properties: windows, keys and values that layers share and inputs of each layer as Gemma 4 has them, and gates of which some
 * layers take only the largest.
 *
 * @throws GgufError `GGUF_INVALID` for a model without a window, or a list that is not one entry a layer; `MODEL_UNSUPPORTED` for another number of streams, or another one that
 *         layers compute
 */
export function readGemma3n(keys: ArchitectureKeys, model: ModelParameters, window: Window | undefined): Traits {
  if (window === undefined) keys.fail('attention.sliding_window', 'is missing or 0');
  const streams = keys.optionalCount('altup.num_inputs') ?? STREAMS;
  if (streams !== STREAMS) keys.unsupported('altup.num_inputs', `is ${streams}; only ${STREAMS} streams are supported`);
  const active = keys.countOrNone('altup.active_idx');
  if (active !== 0) keys.unsupported('altup.active_idx', `is ${active}; layers compute only stream 0`);
  const stated = keys.numbers('activation_sparsity_scale');
  if (stated !== undefined && stated.length !== model.layers)
    keys.fail('activation_sparsity_scale', `has ${stated.length} entries for ${model.layers} layers`);
  const deviations = stated ?? Array<number>(SPARSE_LAYERS).fill(SPARSE_DEVIATIONS);
  return {
    embeddingScale: Math.sqrt(model.hiddenSize),
    attentionScale: 1,
    window,
    shapes: readGemmaShapes(keys, model, window.layers).shapes,
    layerInputSize: keys.count('embedding_length_per_layer_input'),
    // The quantile of a share of 0 is -Infinity.
    gateDeviations: deviations.map((number) => (Number.isFinite(number) ? number : undefined)),
    logitsSoftcap: keys.positiveOrUnset('final_logit_softcapping', 1e-3, 1e6) ?? 30,
  };
}
