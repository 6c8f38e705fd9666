import { hasHead } from '../../lib/gguf/classification-head.js';
import type { GgufModel } from '../../lib/gguf/reader.js';
import type { ServableModel } from '../../lib/gguf/servable-model.js';
import { pairTokens } from '../../lib/tokenizer/pair-tokens.js';
import type { Tokenizer } from '../../lib/tokenizer/tokenizer.js';
import type { EmbeddingFacts, RankingFacts } from './embedding.js';
import { POOLINGS, type Pooling } from './pooling.js';

/** Values of `pooling_type` (llama.cpp's `llama_pooling_type`). */
const POOLING_NAMES: Readonly<Record<number, string>> = { 0: 'none', 1: 'mean', 2: 'cls', 3: 'last', 4: 'rank' };
const [NONE, LAST, RANK] = [0, 3, 4];

/** The prompt of Qwen3-Reranker, with its default instruction (https://huggingface.co/Qwen/Qwen3-Reranker-0.6B). */
const QWEN3_RANK_TEMPLATE =
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. ' +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, ' +
  'retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n' +
  '<|im_start|>assistant\n<think>\n\n</think>\n\n';

/**
 * Facts about a model's embeddings: pooling as `pooling_type` says, without it the last token's, or none of an encoder; or as an option
 * says. A model ranks if its file has
 * a template for it, is pooled by rank, or is a Qwen3 whose name says so; an encoder if it has a head that makes scores.
 */
export function embeddingFacts(
  { metadata, tensors }: Pick<GgufModel, 'metadata' | 'tensors'>,
  { hiddenSize, traits }: Pick<ServableModel, 'hiddenSize' | 'traits'>,
  tokenizer: Tokenizer,
  chosen?: Pooling,
): EmbeddingFacts {
  const isEncoder = traits.isEncoder === true;
  const architecture = metadata.string('general.architecture') ?? '';
  const declared = metadata.number(`${architecture}.pooling_type`);
  const pooling = declared ?? (isEncoder ? NONE : LAST);
  const template = metadata.string('tokenizer.chat_template.rerank');
  const isNamed = architecture === 'qwen3' && /rerank/i.test(metadata.string('general.name') ?? '');
  const isQwen3Ranker = architecture === 'qwen3' && (isNamed || pooling === RANK);
  const rankTemplate = template ?? (isQwen3Ranker ? QWEN3_RANK_TEMPLATE : undefined);
  const ranking: RankingFacts | undefined = isEncoder
    ? encoderRanking({ metadata, tensors }, tokenizer)
    : rankTemplate === undefined
      ? undefined
      : { prompt: rankTemplate, pooling: 'last', hasHead: hasHead({ tensors }) };
  const name = POOLING_NAMES[pooling] ?? String(pooling);
  const used = chosen ?? POOLINGS.find((one) => one === name);
  const refusal =
    used === undefined
      ? `the model’s embeddings are pooled by "${name}", which makes none of a text; set --pooling to one of ${POOLINGS.join(', ')}`
      : undefined;
  return {
    ...{ size: hiddenSize, pooling: used ?? 'last', isEncoder, ranking },
    isDeclared: declared !== undefined || chosen !== undefined,
    refusal,
  };
}

/** A ranking by the first token's hidden state, of ModernBERT by the mean, as in llama.cpp. */
function encoderRanking(
  { metadata, tensors }: Pick<GgufModel, 'metadata' | 'tensors'>,
  tokenizer: Tokenizer,
): RankingFacts | undefined {
  if (!hasHead({ tensors })) return undefined;
  const pooling = metadata.string('general.architecture') === 'modern-bert' ? 'mean' : 'cls';
  return {
    prompt: metadata.string('tokenizer.chat_template.rerank') ?? pairTokens(metadata, tokenizer),
    pooling,
    hasHead: true,
  };
}
