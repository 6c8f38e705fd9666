import type { ArchitectureKeys } from './architecture-keys.js';
import { GgufError } from './error.js';
import type { GgufModel } from './reader.js';

/** Which tier {@link readVocabularySize} found it in. */
export type VocabularySource = 'metadata' | 'tensor' | 'architecture default';

const VOCABULARY_TENSORS = ['token_embd.weight', 'output.weight', 'lm_head.weight', 'embed_tokens.weight'];

const ARCHITECTURE_DEFAULTS: ReadonlyMap<string, number> = new Map([
  ['qwen2', 151_936],
  ['llama', 32_000],
  ['glm', 151_552],
  ['chatglm', 151_552],
  ['glm4', 151_552],
]);

/**
 * Number of rows of the vocabulary's matrices: the other side of an embedding or output matrix that has `hiddenSize` on
 * one side, else `{architecture}.vocab_size` if > 0, else what the architecture usually has. And how many of them are
 * tokens. Converters write the key from the model's configuration, which tokens that were added later are not in; the matrix
 * is what is multiplied.
 *
 * @throws GgufError `GGUF_INVALID` when a vocabulary matrix does not have `hiddenSize` on either side, or when the
 *         tokenizer has more tokens than that
 * @throws GgufError `MODEL_UNSUPPORTED` when no tier knows
 */
export function readVocabularySize(
  file: GgufModel,
  keys: ArchitectureKeys,
  hiddenSize: number,
): { rows: number; source: VocabularySource; tokens: number } {
  const { size, source } = findVocabularySize(file, keys, hiddenSize);
  const tokens = file.metadata.strings('tokenizer.ggml.tokens')?.length ?? 0;
  if (tokens > size) {
    throw new GgufError(
      'GGUF_INVALID',
      `${file.name}: the tokenizer has ${tokens} tokens, but the vocabulary (${source}) only ${size}`,
      { key: 'tokenizer.ggml.tokens' },
    );
  }
  return { rows: size, source, tokens: tokens === 0 ? size : tokens };
}

function findVocabularySize(
  file: GgufModel,
  keys: ArchitectureKeys,
  hiddenSize: number,
): { size: number; source: VocabularySource } {
  // Read whether or not it decides, so that it is known to be understood.
  const stated = keys.optionalNumber('vocab_size');
  for (const name of VOCABULARY_TENSORS) {
    const tensor = file.tensors.get(name);
    if (tensor === undefined) continue;
    const [inner, outer] = tensor.dims;
    if (tensor.dims.length === 2 && inner === hiddenSize) return { size: outer!, source: 'tensor' };
    if (tensor.dims.length === 2 && outer === hiddenSize) return { size: inner!, source: 'tensor' };
    throw new GgufError(
      'GGUF_INVALID',
      `${file.name}: tensor "${name}" is ${tensor.dims.join(' × ')}, with the hidden size ${hiddenSize} on neither side`,
      { tensor: name },
    );
  }
  // Some converters write 0 for "look at the tensors".
  if (stated) return { size: keys.count('vocab_size'), source: 'metadata' };
  const size = ARCHITECTURE_DEFAULTS.get(keys.architecture);
  if (size !== undefined) return { size, source: 'architecture default' };
  return keys.unsupported(
    'vocab_size',
    'is missing, and neither a tensor nor the architecture defines the vocabulary size',
  );
}
