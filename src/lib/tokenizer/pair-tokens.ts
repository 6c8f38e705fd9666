import type { GgufMetadata } from '../gguf/metadata.js';
import { TokenizerError } from './error.js';
import type { Tokenizer } from './tokenizer.js';

/** Ids before, between and behind the two texts of a pair. */
export interface PairTokens {
  readonly first: readonly number[];
  readonly between: readonly number[];
  readonly last: readonly number[];
}

/** Byte-level pre-tokenizers with which llama.cpp separates the texts of a pair if a file does not say. */
const SEPARATING = /^(jina-v1-en|jina-v2-code|roberta-bpe)$/;

/**
 * Ids around a query and a document, as llama.cpp's server puts them: BOS, the query, EOS, the separator, the document and EOS, each if
 * the file adds it to texts.
 *
 * @throws TokenizerError `TOKENIZER_INVALID` for a separator that the file does not name
 */
export function pairTokens(metadata: GgufMetadata, { bosId, eosId, addBos, addEos }: Tokenizer): PairTokens {
  const kind = metadata.string('tokenizer.ggml.model');
  const isWordPiece = kind === 'bert';
  const added = (name: string): boolean | undefined => metadata.boolean(`tokenizer.ggml.add_${name}_token`);
  // A text between [CLS] and [SEP] is no evidence for pairs: without the keys a pair has no [SEP] at its end.
  const hasBos = isWordPiece ? (added('bos') ?? true) : addBos;
  const hasEos = isWordPiece ? (added('eos') ?? false) : addEos;
  const separates = SEPARATING.test(metadata.string('tokenizer.ggml.pre') ?? '') && kind === 'gpt2';
  const hasSeparator = added('sep') ?? (isWordPiece || separates);
  const separator = isWordPiece ? eosId : metadata.number('tokenizer.ggml.seperator_token_id');
  if (hasSeparator && separator === undefined) {
    const key = 'tokenizer.ggml.seperator_token_id';
    throw new TokenizerError('TOKENIZER_INVALID', `the model ranks pairs of texts, and its file has no "${key}"`, {
      key,
    });
  }
  const ids = (holds: boolean, id: number | undefined): readonly number[] => (holds && id !== undefined ? [id] : []);
  return {
    first: ids(hasBos, bosId),
    between: [...ids(hasEos, eosId), ...ids(hasSeparator, separator)],
    last: ids(hasEos, eosId),
  };
}
