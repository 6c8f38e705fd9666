import type { PairTokens } from '../../lib/tokenizer/pair-tokens.js';
import { asRocmForgeError, RocmForgeError } from '../../shared/errors.js';
import type { EmbedInput as Input, PromptPart } from '../../shared/generated/rocmforge/v1/inference.js';
import { checkTokenIds, encodeInput, type PromptEncoder, type PromptInput } from './encoding/prompt.js';
import { checkLimits, checkModelName, type LimitFacts } from './limits.js';
import type { Pooling } from './pooling.js';

/** Properties of a served model that its embeddings depend on. */
export interface EmbeddingFacts {
  /** Pooling of its embeddings. */
  readonly pooling: Pooling;
  /** Elements of an embedding. */
  readonly size: number;
  /** True if the model is an encoder: its positions see those behind them, and it generates nothing. */
  readonly isEncoder: boolean;
  /** True if the file says how embeddings are pooled. */
  readonly isDeclared: boolean;
  /** Why it has none: how they are pooled is not supported. */
  readonly refusal?: string | undefined;
  /** Properties of its rankings; absent: it was not trained to rank documents. */
  readonly ranking?: RankingFacts | undefined;
}

/** Properties of a model that ranks documents. */
export interface RankingFacts {
  /** Its prompt: a template with `{query}` and `{document}`, or the ids around the two. */
  readonly prompt: string | PairTokens;
  /** Pooling of what its scores are made of. */
  readonly pooling: Pooling;
  /** True if the file has a classification head; without one the score is the probability of "yes" against "no". */
  readonly hasHead: boolean;
}

/** An input: a text, ids, or as JSON has it ids and texts in turn. */
export interface EmbedInput {
  readonly input?: Input['input'] | Extract<PromptInput, { $case: 'mixed' }>;
}

/** A request for embeddings, of any API. */
export interface EmbeddingRequest {
  readonly model: string;
  readonly inputs: readonly EmbedInput[];
  readonly dimensions?: number | undefined;
  readonly normalize?: boolean | undefined;
  /** True if the response has an embedding for each token where the model’s are not pooled. */
  readonly perToken?: boolean | undefined;
  readonly truncate: boolean;
  readonly priority: number;
  readonly requestId: string;
  /** The most bytes of all embeddings together. */
  readonly mostBytes: number;
}

/** Pairs of texts to rank, for a model that was trained for it. */
export interface RankRequest extends Pick<EmbeddingRequest, 'model' | 'priority' | 'requestId' | 'truncate'> {
  readonly pairs: readonly (readonly [query: string, document: string])[];
}

/** A request whose inputs are encoded. */
export interface OpenedPrompts {
  readonly model: string;
  readonly requestId: string;
  readonly priority: number;
  readonly prompts: readonly Uint32Array[];
  /** The first so many elements; default all. */
  readonly dimensions?: number | undefined;
  readonly normalize: boolean;
}

/** Inputs of one request. */
export const MOST_EMBED_INPUTS = 2048;

/**
 * Checks and encodes a request for embeddings.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `PROMPT_TOO_LONG`, `TOKEN_OUT_OF_RANGE`, `MODEL_NOT_FOUND`, `NOT_IMPLEMENTED` for a
 *   model without embeddings
 */
export function openEmbedding(request: EmbeddingRequest, facts: LimitFacts, encoder: PromptEncoder): OpenedPrompts {
  const { inputs, dimensions, normalize = true, mostBytes } = request;
  checkHead(request, facts);
  const { size, refusal = unpooledRefusal(request, facts) } = facts.embeddings ?? NO_EMBEDDINGS;
  if (refusal !== undefined) throw new RocmForgeError('NOT_IMPLEMENTED', refusal, { field: 'model' });
  check(inputs.length > 0, 'inputs', 'is empty: there is nothing to embed');
  check(inputs.length <= MOST_EMBED_INPUTS, 'inputs', `has ${inputs.length} entries, more than ${MOST_EMBED_INPUTS}`);
  const isCut = dimensions === undefined || (dimensions >= 1 && dimensions <= size);
  check(isCut, 'dimensions', `is ${dimensions}; the model’s embeddings have ${size}`);
  const checkBytes = (vectors: number): void => {
    const bytes = 4 * vectors * (dimensions ?? size);
    const what = `have embeddings of ${bytes} bytes, more than ${mostBytes}; send fewer at a time`;
    check(bytes <= mostBytes, 'inputs', what);
  };
  checkBytes(inputs.length);
  const prompts = inputs.map(({ input }, i) => promptOf(input, { ...request, facts, encoder, field: `inputs[${i}]` }));
  if (facts.embeddings?.pooling === 'none') checkBytes(prompts.reduce((tokens, { length }) => tokens + length, 0));
  return { ...headOf(request), prompts, dimensions, normalize };
}

const NO_EMBEDDINGS = { size: 0, refusal: 'this model has no embeddings' };

/** Why a request for one embedding a text has none. */
function unpooledRefusal({ perToken = false }: EmbeddingRequest, { embeddings }: LimitFacts): string | undefined {
  if (embeddings?.pooling !== 'none' || perToken) return undefined;
  return 'the model’s embeddings are not pooled: there is one for each token, which /embedding returns; set --pooling for one of a text';
}

/**
 * Checks and encodes pairs to rank. Only the template’s own markers become special tokens.
 *
 * @throws RocmForgeError as {@link openEmbedding}
 */
export function openRanking(request: RankRequest, facts: LimitFacts, encoder: PromptEncoder): OpenedPrompts {
  checkHead(request, facts);
  const ranking = facts.embeddings?.ranking;
  if (ranking === undefined) throw new RocmForgeError('INTERNAL', 'a ranking by a model that ranks nothing');
  const { pairs } = request;
  check(pairs.length <= MOST_EMBED_INPUTS, 'documents', `has ${pairs.length} entries, more than ${MOST_EMBED_INPUTS}`);
  const { prompt } = ranking;
  const { partsOf, keep } = typeof prompt === 'string' ? templateParts(prompt, encoder) : pairParts(prompt);
  const prompts = pairs.map(([query, document], i) => {
    const ids = encodeInput({ $case: 'mixed', value: { parts: partsOf(query, document) } }, encoder);
    return fitting(ids, { ...request, facts, field: `documents[${i}]`, keep });
  });
  return { ...headOf(request), prompts, normalize: false };
}

/** Parts of a prompt to rank with, and how many tokens are behind the document. */
interface RankParts {
  readonly partsOf: (query: string, document: string) => PromptPart[];
  readonly keep: number;
}

function templateParts(template: string, encoder: PromptEncoder): RankParts {
  const pieces = template.split(/(\{query\}|\{document\})/);
  return {
    partsOf: (query, document) =>
      pieces
        .filter((piece) => piece !== '')
        .map((piece) => {
          if (piece === '{query}') return plainPart(query);
          return piece === '{document}' ? plainPart(document) : plainPart(piece, true);
        }),
    keep: tailOf(pieces, encoder),
  };
}

function pairParts({ first, between, last }: PairTokens): RankParts {
  const idsPart = (ids: readonly number[]): PromptPart[] =>
    ids.length === 0 ? [] : [{ part: { $case: 'tokens', value: { ids: [...ids] } } }];
  return {
    partsOf: (query, document) => [
      ...[...idsPart(first), plainPart(query)],
      ...[...idsPart(between), plainPart(document), ...idsPart(last)],
    ],
    keep: last.length,
  };
}

const plainPart = (text: string, parseSpecial = false): PromptPart => ({
  part: { $case: 'text', value: { text, parseSpecial, addSpecial: false } },
});

interface PromptContext {
  readonly truncate: boolean;
  readonly facts: LimitFacts;
  readonly encoder: PromptEncoder;
  readonly field: string;
}

function promptOf(input: EmbedInput['input'], { facts, encoder, field, truncate }: PromptContext): Uint32Array {
  if (input === undefined) throw new RocmForgeError('INVALID_FIELD', `${field} has neither text nor tokens`, { field });
  const { contextLength, longestTokenBytes, vocabularySize } = facts;
  if (input.$case === 'tokens') {
    const { ids } = input.value;
    check(ids.length > 0, field, 'is empty: there is nothing to embed');
    checkTokenIds(ids, vocabularySize, field);
    return fitting(Uint32Array.from(ids), { facts, field, truncate, keep: 0 });
  }
  if (input.$case === 'mixed') {
    const characters = input.value.parts.reduce(
      (sum, { part }) => sum + (part?.$case === 'text' ? part.value.text.length : 1),
      0,
    );
    if (characters > contextLength * longestTokenBytes) throw tooLong(field, `${characters} characters`, contextLength);
    return fitting(encodeNamed(input, encoder, field), { facts, field, truncate, keep: 0 });
  }
  const { text, addSpecial = true } = input.value;
  const mostCharacters = contextLength * longestTokenBytes;
  if (text.length > mostCharacters && !truncate) throw tooLong(field, `${text.length} characters`, contextLength);
  const given = { ...input.value, text: text.slice(0, mostCharacters) };
  // An empty text is what the model wants at its beginning and end, if anything.
  const ids = encodeNamed({ $case: 'text', value: given }, encoder, field);
  const { tokenizer } = encoder;
  const endsWith = addSpecial && tokenizer.addEos && ids.at(-1) === tokenizer.eosId;
  return fitting(ids, { facts, field, truncate, keep: Number(endsWith) });
}

/** As {@link encodeInput}; a refusal says of which input it is. */
function encodeNamed(input: PromptInput, encoder: PromptEncoder, field: string): Uint32Array {
  try {
    return encodeInput(input, encoder);
  } catch (error) {
    const { reason, message, metadata } = asRocmForgeError(error);
    throw new RocmForgeError(reason, `${field}: ${message}`, { ...metadata, field });
  }
}

/** The ids that fit the context: where they are cut, the last `keep` stay, whose hidden state is the embedding. */
function fitting(
  ids: Uint32Array,
  {
    facts: { contextLength, embeddings },
    field,
    truncate,
    keep,
  }: Omit<PromptContext, 'encoder'> & { readonly keep: number },
): Uint32Array {
  // The executor samples a token behind each prompt, unless the model is an encoder.
  const most = embeddings?.isEncoder ? contextLength : contextLength - 1;
  if (ids.length <= most) return ids;
  if (!truncate || keep >= most) throw tooLong(field, `${ids.length} tokens`, contextLength, ids.length);
  const cut = new Uint32Array(most);
  cut.set(ids.subarray(0, most - keep));
  cut.set(ids.subarray(ids.length - keep), most - keep);
  return cut;
}

/** Tokens behind the last text of a template. */
function tailOf(pieces: readonly string[], { tokenizer }: PromptEncoder): number {
  const tail = pieces.at(-1) ?? '';
  return tail === '' ? 0 : tokenizer.encodePrompt(tail, { parseSpecial: true, addSpecial: false }).length;
}

/** @param tokens absent if the prompt was not encoded */
function tooLong(field: string, what: string, contextLength: number, tokens?: number): RocmForgeError {
  const message = `${field} is too large: it has ${what}, which exceeds the available context size of ${contextLength}`;
  const counts = tokens !== undefined && { prompt_tokens: String(tokens), context_length: String(contextLength) };
  return new RocmForgeError('PROMPT_TOO_LONG', message, { field, ...counts });
}

function checkHead(request: Pick<EmbeddingRequest, 'model' | 'requestId' | 'priority'>, facts: LimitFacts): void {
  checkLimits(headOf(request), facts);
  checkModelName(request.model, facts);
}

const headOf = ({ model, requestId, priority }: Pick<EmbeddingRequest, 'model' | 'requestId' | 'priority'>) => ({
  model,
  requestId,
  priority,
});

function check(holds: boolean, field: string, what: string): void {
  if (!holds) throw new RocmForgeError('INVALID_FIELD', `${field} ${what}`, { field });
}
