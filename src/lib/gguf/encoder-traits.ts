import type { ArchitectureKeys } from './architecture-keys.js';
import type { Traits, TraitsReader } from './architecture-traits.js';
import type { ModelParameters } from './model-parameters.js';
import { readWindow } from './windows.js';

/** Readers of the keys that encoders have. */
export const ENCODER_READERS = {
  bert: (keys) => ({ ...readEncoder(keys), isUnrotated: true, ungated: 'gelu' }),
  'nomic-bert': (keys) => readEncoder(keys),
  'jina-bert-v2': (keys, { heads }) => ({ ...readEncoder(keys), isUnrotated: true, slopes: alibiSlopes(heads) }),
  'modern-bert': (keys, model) => ({
    ...readEncoder(keys),
    ...readSymmetricWindow(keys, model, { period: 3, ropeFreqBase: 10_000, seesAllFirst: true }),
    ...readActivation(keys),
  }),
  'gemma-embedding': (keys, model) => ({
    ...readEncoder(keys),
    ...readSymmetricWindow(keys, model, { period: 6, ropeFreqBase: 10_000 }),
    embeddingScale: Math.sqrt(model.hiddenSize),
    ...readDense(keys, model),
  }),
} as const satisfies Readonly<Record<string, TraitsReader>>;

/** @throws GgufError `MODEL_UNSUPPORTED` for a file whose positions see only what is before them */
function readEncoder(keys: ArchitectureKeys): Pick<Traits, 'isEncoder'> {
  if (keys.optionalBoolean('attention.causal') === true)
    keys.unsupported('attention.causal', 'is true: positions of an encoder see the whole input');
  return { isEncoder: true };
}

/** Sizes of the products behind the pooling, from the hidden size to another one and back. */
function readDense(keys: ArchitectureKeys, { hiddenSize }: ModelParameters): Pick<Traits, 'denseSize'> {
  keys.expectEqual('dense_2_feat_in', hiddenSize);
  keys.expectEqual('dense_3_feat_out', hiddenSize);
  const size = keys.countOrNone('dense_2_feat_out') || keys.countOrNone('dense_3_feat_in');
  if (size === 0) return {};
  keys.expectEqual('dense_3_feat_in', size);
  return { denseSize: size };
}

/** A window of one position has no other side. */
function readSymmetricWindow(
  keys: ArchitectureKeys,
  model: ModelParameters,
  defaults: Parameters<typeof readWindow>[2],
): Pick<Traits, 'window'> {
  const { window } = readWindow(keys, model, defaults);
  if (window?.size === 1) keys.unsupported('attention.sliding_window', 'is 1, which hides every other position');
  return window === undefined ? {} : { window };
}

/** The activation of ModernBERT's gates. */
function readActivation(keys: ArchitectureKeys): Pick<Traits, 'gateActivation'> {
  const name = keys.optionalString('hidden_activation') ?? 'gelu';
  if (name === 'gelu') return { gateActivation: 'gelu' };
  if (name === 'silu') return {};
  return keys.unsupported('hidden_activation', `is ${JSON.stringify(name)}; supported are gelu and silu`);
}

/** The largest bias of ALiBi, of which llama.cpp has the same number for the architecture. */
const MOST_ALIBI_BIAS = 8;

/** Slopes of ALiBi: powers of 2^(-8 / heads), and between them where heads are no power of two; Press et al. (2022). */
export function alibiSlopes(heads: number): readonly number[] {
  const whole = 2 ** Math.floor(Math.log2(heads));
  return Array.from({ length: heads }, (_, head) =>
    head < whole
      ? 2 ** ((-MOST_ALIBI_BIAS / whole) * (head + 1))
      : 2 ** ((-MOST_ALIBI_BIAS / 2 / whole) * (2 * (head - whole) + 1)),
  );
}
