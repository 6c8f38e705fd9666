import { syntheticVocabulary } from '../../src/cli/synth/vocabulary.js';
import { type GgufBuilder, typed } from './gguf-builder.js';
import type { KnownFile } from './known-files.js';
import {
  RANDOM_ENCODER_VOCABULARY,
  RANDOM_ENCODERS,
  type RandomEncoderName,
  randomEncoder,
  SEP,
} from './random-encoders.js';

/** Published files of encoders. */
export const KNOWN_ENCODERS: readonly KnownFile[] = [
  { name: 'all-MiniLM-L6-v2 F16', architecture: 'bert', types: ['F16'], headDim: 32 },
  { name: 'bge-large-en-v1.5 Q8_0', architecture: 'bert', types: ['Q8_0'], headDim: 64 },
  { name: 'nomic-embed-text-v1.5 Q8_0', architecture: 'nomic-bert', types: ['Q8_0'], headDim: 64 },
  { name: 'jina-embeddings-v2-small-en F16', architecture: 'jina-bert-v2', types: ['F16'], headDim: 64 },
  { name: 'bge-m3 Q8_0', architecture: 'bert', isUnigram: true, types: ['Q8_0'], headDim: 64 },
  { name: 'multilingual-e5-large-instruct Q8_0', architecture: 'bert', isUnigram: true, types: ['Q8_0'], headDim: 64 },
  {
    name: 'paraphrase-multilingual-MiniLM-L12-v2 F16',
    ...{ architecture: 'bert', isUnigram: true, types: ['F16'], headDim: 32 },
  },
  {
    name: 'bge-reranker-v2-m3 Q4_K_M',
    ...{ architecture: 'bert', isUnigram: true, types: ['Q4_K', 'Q6_K'], headDim: 64 },
    head: { dense: 'hidden', isBiased: true, labels: 1 },
  },
  { name: 'ms-marco-MiniLM-L6-v2 F16', architecture: 'bert', types: ['F16'], headDim: 32, head: { labels: 1 } },
  {
    name: 'gte-reranker-modernbert-base Q8_0',
    ...{ architecture: 'modern-bert', preTokenizer: 'modern-bert', types: ['Q8_0'], headDim: 64 },
    head: { dense: 'hidden', isNormed: true, labels: 1 },
  },
  {
    name: 'stsb-roberta-base F16',
    ...{ architecture: 'bert', preTokenizer: 'roberta-bpe', types: ['F16'], headDim: 64 },
  },
];

/** Rows of the embedding with byte-level BPE. */
const VOCABULARY = 299;

/** True of an architecture with a random encoder. */
export const isEncoder = (architecture: string): architecture is RandomEncoderName => architecture in RANDOM_ENCODERS;

/** The random model of an encoder, with the tokenizer and the head of a file. */
export function encoderOf(architecture: RandomEncoderName, { isUnigram, preTokenizer, head }: KnownFile): GgufBuilder {
  const scores = typed.arrayOf(typed.f32, Array<number>(RANDOM_ENCODER_VOCABULARY).fill(-1));
  const ends = {
    'tokenizer.ggml.eos_token_id': SEP,
    'tokenizer.ggml.add_bos_token': true,
    'tokenizer.ggml.add_eos_token': true,
    'tokenizer.ggml.add_sep_token': true,
  };
  const unigram = {
    'tokenizer.ggml.model': 't5',
    'tokenizer.ggml.pre': 'default',
    'tokenizer.ggml.scores': scores,
    'tokenizer.ggml.add_space_prefix': true,
    'tokenizer.ggml.remove_extra_whitespaces': true,
    'tokenizer.ggml.precompiled_charsmap': typed.arrayOf(typed.u8, [...EMPTY_CHARSMAP]),
    ...ends,
  };
  const byteLevel = (pre: string) => {
    const { tokens, types, merges } = syntheticVocabulary(VOCABULARY);
    return {
      ...{ 'tokenizer.ggml.model': 'gpt2', 'tokenizer.ggml.pre': pre, 'tokenizer.ggml.tokens': tokens },
      ...{ 'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, types), 'tokenizer.ggml.merges': merges },
      ...ends,
    };
  };
  return randomEncoder(architecture, {
    ...{ hidden: 256, head },
    ...(isUnigram && { metadata: unigram }),
    ...(preTokenizer !== undefined && { metadata: byteLevel(preTokenizer), vocabulary: VOCABULARY }),
  });
}

/** A trie of one unit without children, and an empty replacement. */
const EMPTY_CHARSMAP = Uint8Array.from([0, 4, 0, 0, ...Array<number>(1024).fill(0), 0]);
