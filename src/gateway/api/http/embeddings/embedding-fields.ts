import type { EmbeddingRequest, EmbedInput, RankRequest } from '../../../request/embedding.js';
import type { LimitFacts } from '../../../request/limits.js';
import type { FieldPolicy } from '../field-policy.js';
import { areIds, Fields } from '../fields.js';
import { durationMs } from '../ollama/ollama-form.js';
import { mixedOf } from '../openai/completion-request.js';
import { priorityOf } from '../sampling-fields.js';

/** Requests for embeddings and scores. */
export type EmbeddingKind =
  | ('embeddings' | 'unversionedEmbeddings' | 'llamaEmbedding')
  | ('ollamaEmbed' | 'ollamaEmbeddings' | 'teiEmbed')
  | ('rerank' | 'score');

/** Form of a response: plain data, so that a request may be read in another thread. */
export interface EmbeddingForm {
  readonly kind: EmbeddingKind;
  /** The model as the request names it. */
  readonly model: string;
  /** True if embeddings are base64 of little-endian f32. */
  readonly isBase64: boolean;
  /** Elements of an embedding, where the response has one for each token. */
  readonly size?: number | undefined;
  /** Idle time (ms) of Ollama's API. */
  readonly keepAliveMs?: number | undefined;
  /** True if the prompts are pairs to rank; else, of scores, texts whose embeddings are compared. */
  readonly isRanked: boolean;
  /** Texts that scores compare, as indices of the prompts. */
  readonly pairs: readonly (readonly [number, number])[];
  /** Documents of a ranking, if the response has them, and how many it has at most. */
  readonly documents?: readonly string[] | undefined;
  readonly top?: number | undefined;
  /** True if a ranking is written as Text Embeddings Inference writes it: a list. */
  readonly isList?: boolean | undefined;
  /** True if scores are logits, and the response has their sigmoid. */
  readonly isSigmoid?: boolean | undefined;
}

/** A request that was read. */
export interface ReadEmbedding {
  readonly request: EmbeddingRequest;
  /** The pairs, for a model that ranks. */
  readonly ranking?: RankRequest | undefined;
  readonly form: EmbeddingForm;
  /** The request's name of a field. */
  readonly nameOf: (field: string) => string | undefined;
}

type Reader = (body: unknown, policy: FieldPolicy, facts: LimitFacts) => ReadEmbedding;

/** Bytes of all embeddings of a JSON response. */
const MOST_JSON_BYTES = 8 << 20;
const MOST_INTEGER = 2 ** 31 - 1;
const EMPTY: Omit<EmbeddingForm, 'kind' | 'model'> = { isBase64: false, isRanked: false, pairs: [] };

/** The fields that name and order a request. */
function headOf(fields: Fields): Pick<EmbeddingRequest, 'model' | 'priority' | 'requestId'> {
  return {
    model: fields.string('model') ?? '',
    priority: priorityOf(fields),
    requestId: fields.string('request_id') ?? '',
  };
}

/** OpenAI's `POST /v1/embeddings`, with the fields that vLLM and llama.cpp added. */
const openAi: Reader = (body, policy) => {
  const fields = new Fields(body, '', policy);
  const head = headOf(fields);
  const name = fields.has('input') || !fields.has('content') ? 'input' : 'content';
  const inputs = inputsOf(fields, name);
  const format = fields.string('encoding_format') ?? 'float';
  if (format !== 'float' && format !== 'base64') fields.refuse('encoding_format', 'must be "float" or "base64"');
  const request = {
    ...{ ...head, inputs, mostBytes: MOST_JSON_BYTES, truncate: truncates(fields) },
    dimensions: fields.integer('dimensions', 1, MOST_INTEGER),
    normalize: normalizes(fields),
  };
  fields.ignore('user', 'content');
  fields.end();
  const form = { ...EMPTY, kind: 'embeddings', model: head.model, isBase64: format === 'base64' } as const;
  return { request, form, nameOf: inputNames(fields, name) };
};

/** llama.cpp's `POST /embedding`. */
const llama: Reader = (body, policy, facts) => {
  const { request, form, nameOf } = openAi(body, policy, facts);
  const size = facts.embeddings?.pooling === 'none' ? facts.embeddings.size : undefined;
  if (size !== undefined && request.dimensions !== undefined) new Fields(body).refuse('dimensions', 'requires pooling');
  return { request: { ...request, perToken: true }, form: { ...form, kind: 'llamaEmbedding', size }, nameOf };
};

/** `POST /embeddings`: OpenAI's form, and llama.cpp's for a model without pooling, which OpenAI's cannot express. */
const unversioned: Reader = (body, policy, facts) =>
  (facts.embeddings?.pooling === 'none' ? llama : openAi)(body, policy, facts);

/** vLLM's `truncate_prompt_tokens`: -1 cuts what is longer than the context. */
function truncates(fields: Fields): boolean {
  fields.mustBe('truncate_prompt_tokens', -1);
  return fields.has('truncate_prompt_tokens');
}

/** `normalize` of vLLM, `embd_normalize` of llama.cpp: 2 is the Euclidean norm, -1 none. */
function normalizes(fields: Fields): boolean | undefined {
  fields.mustBe('embd_normalize', 2, -1);
  const norm = fields.number('embd_normalize');
  return fields.boolean('normalize') ?? (norm === undefined ? undefined : norm === 2);
}

/** Ollama's `POST /api/embed`. */
const ollamaEmbed: Reader = (body, policy) => {
  const fields = new Fields(body, '', policy);
  const { model } = headOf(fields);
  const isNothing = !fields.has('input') || fields.any('input') === '';
  const inputs = isNothing ? [] : inputsOf(fields, 'input');
  const keepAliveMs = keepAliveOf(fields);
  const truncate = fields.boolean('truncate') ?? true;
  const dimensions = fields.integer('dimensions', 1, MOST_INTEGER);
  fields.reportIgnored('options');
  fields.end();
  return {
    request: { ...HEADLESS, model, inputs, truncate, dimensions, normalize: true },
    form: { ...EMPTY, kind: 'ollamaEmbed', model, keepAliveMs },
    nameOf: inputNames(fields, 'input'),
  };
};

/** Ollama's `POST /api/embeddings`, which it had before. */
const ollamaEmbeddings: Reader = (body, policy) => {
  const fields = new Fields(body, '', policy);
  const { model } = headOf(fields);
  const inputs = inputsOf(fields, 'prompt');
  const keepAliveMs = keepAliveOf(fields);
  fields.reportIgnored('options');
  fields.end();
  return {
    request: { ...HEADLESS, model, inputs, truncate: true, normalize: false },
    form: { ...EMPTY, kind: 'ollamaEmbeddings', model, keepAliveMs },
    nameOf: inputNames(fields, 'prompt'),
  };
};

/** Text Embeddings Inference's `POST /embed`. */
const teiEmbed: Reader = (body, policy) => {
  const fields = new Fields(body, '', policy);
  const { model } = headOf(fields);
  const inputs = inputsOf(fields, 'inputs');
  const truncate = teiTruncates(fields);
  const normalize = fields.boolean('normalize') ?? true;
  const dimensions = fields.integer('dimensions', 1, MOST_INTEGER);
  // Prompts are in a configuration of Sentence Transformers, which model files do not have.
  fields.unsupported('prompt_name');
  fields.end();
  return {
    request: { ...HEADLESS, model, inputs, truncate, dimensions, normalize },
    form: { ...EMPTY, kind: 'teiEmbed', model },
    nameOf: inputNames(fields, 'inputs'),
  };
};

function teiTruncates(fields: Fields): boolean {
  fields.mustBe('truncation_direction', 'Right', 'right');
  return fields.boolean('truncate') ?? false;
}

const HEADLESS = { priority: 0, requestId: '', mostBytes: MOST_JSON_BYTES } as const;

function keepAliveOf(fields: Fields): number | undefined {
  const keepAlive = fields.rounded('keep_alive');
  return keepAlive === undefined ? undefined : durationMs(keepAlive, 'keep_alive');
}

/** `POST /v1/rerank` of Cohere, Jina, vLLM and llama.cpp. */
const rerank: Reader = (body, policy, facts) => {
  const fields = new Fields(body, '', policy);
  const head = headOf(fields);
  const query = fields.string('query') ?? fields.refuse('query', 'is missing');
  // Text Embeddings Inference calls them texts.
  const name = fields.has('documents') ? 'documents' : fields.has('texts') ? 'texts' : 'documents';
  const documents = documentsOf(fields, name);
  const top = fields.integer('top_n', 0, MOST_INTEGER);
  const isList = name === 'texts';
  const returns = fields.boolean('return_documents') ?? fields.boolean('return_text') ?? !isList;
  const truncate = isList ? teiTruncates(fields) : truncates(fields);
  const isRaw = isList && fields.boolean('raw_scores') === true;
  fields.ignore('return_text', 'documents', 'texts', 'user');
  fields.end();
  const { ranking, isEncoder } = facts.embeddings ?? {};
  const isRanked = ranking !== undefined;
  const areLogits = isEncoder === true && ranking?.hasHead === true;
  return {
    request: {
      ...head,
      mostBytes: MOST_JSON_BYTES,
      truncate,
      normalize: true,
      inputs: [query, ...documents].map(textInput),
    },
    ranking: isRanked ? { ...head, truncate, pairs: documents.map((document) => [query, document]) } : undefined,
    form: {
      ...{
        ...EMPTY,
        kind: 'rerank',
        model: head.model,
        isRanked,
        top,
        isList,
        isSigmoid: isList && areLogits && !isRaw,
      },
      pairs: documents.map((_, i) => [0, i + 1]),
      documents: returns ? documents : undefined,
    },
    nameOf: pairNames(
      () => 'query',
      1,
      (i) => `${name}${i}`,
    ),
  };
};

/** vLLM's `POST /v1/score`: pairs of texts, or one text with many. */
const score: Reader = (body, policy, facts) => {
  const fields = new Fields(body, '', policy);
  const head = headOf(fields);
  const [first, second] = [textsOf(fields, 'text_1', 'queries'), textsOf(fields, 'text_2', 'documents')];
  if (first.length !== 1 && first.length !== second.length)
    fields.refuse('text_1', `has ${first.length} texts, and text_2 ${second.length}; send one, or as many`);
  const truncate = truncates(fields);
  fields.ignore('user');
  fields.end();
  const isRanked = facts.embeddings?.ranking !== undefined;
  const of = (i: number): number => (first.length === 1 ? 0 : i);
  return {
    request: {
      ...head,
      mostBytes: MOST_JSON_BYTES,
      truncate,
      normalize: true,
      inputs: [...first, ...second].map(textInput),
    },
    ranking: isRanked
      ? { ...head, truncate, pairs: second.map((document, i) => [first[of(i)] as string, document]) }
      : undefined,
    form: {
      ...{ ...EMPTY, kind: 'score', model: head.model, isRanked },
      pairs: second.map((_, i) => [of(i), first.length + i]),
    },
    nameOf: pairNames(
      elementNames(fields, 'text_1', 'queries'),
      first.length,
      elementNames(fields, 'text_2', 'documents'),
    ),
  };
};

/** Reader of each kind of request. */
export const EMBEDDING_READERS: Readonly<Record<EmbeddingKind, Reader>> = {
  embeddings: openAi,
  unversionedEmbeddings: unversioned,
  ollamaEmbed,
  ollamaEmbeddings,
  teiEmbed,
  llamaEmbedding: llama,
  rerank,
  score,
};

const textInput = (text: string): EmbedInput => ({
  input: { $case: 'text', value: { text, parseSpecial: false, addSpecial: true } },
});

/** True if a value is a list of inputs, not one of token ids. */
const areSeveral = (given: unknown): given is readonly unknown[] =>
  Array.isArray(given) && !given.some((one) => typeof one === 'number');

/** Inputs: a text, token ids, or a list of such. As llama.cpp has them, a list with single ids in it is one input, of ids and texts. */
function inputsOf(fields: Fields, name: string): readonly EmbedInput[] {
  const given = fields.rounded(name);
  if (given === undefined) return fields.refuse(name, 'is missing');
  const all = areSeveral(given) ? given : [given];
  const refuse = (): never => fields.refuse(name, 'is neither a text nor a list of token ids, nor a list of such');
  return all.map((one) => {
    if (typeof one === 'string') return textInput(one);
    if (areIds(one) && one.length > 0) return { input: { $case: 'tokens', value: { ids: [...one] } } };
    if (Array.isArray(one) && one.length > 0) {
      return { input: mixedOf(one, { addSpecial: true, parseSpecial: false }, refuse) };
    }
    return refuse();
  });
}

type NameOf = ReadEmbedding['nameOf'];

/** Names of inputs that are one field. */
function inputNames(fields: Fields, name: string): NameOf {
  const isList = areSeveral(fields.rounded(name));
  return (field) => {
    const [, index] = /^inputs(\[\d+\])?$/.exec(field) ?? [];
    return field.startsWith('inputs') ? `${name}${isList ? (index ?? '') : ''}` : undefined;
  };
}

/** Names of the elements of a field that has two names, by `[index]`, or of the whole by an empty text. */
function elementNames(fields: Fields, name: string, other: string): (index: string) => string {
  const used = fields.has(other) && !fields.has(name) ? other : name;
  const isList = Array.isArray(fields.any(used));
  return (index) => (isList ? used + index : used);
}

/** Names of texts and of those that they are compared with, which are inputs from `firsts` on. */
function pairNames(first: (index: string) => string, firsts: number, second: (index: string) => string): NameOf {
  return (field) => {
    const [, list, index] = /^(inputs|documents)(?:\[(\d+)\])?$/.exec(field) ?? [];
    if (list === undefined) return undefined;
    if (index === undefined) return second('');
    if (list === 'documents') return second(`[${index}]`);
    return Number(index) < firsts ? first(`[${index}]`) : second(`[${Number(index) - firsts}]`);
  };
}

/** Texts, or objects with a text. */
function documentsOf(fields: Fields, name: string): readonly string[] {
  const list = fields.list(name) ?? fields.refuse(name, 'is missing');
  if (list.length === 0) fields.refuse(name, 'is empty');
  return list.map((document, i) => {
    if (typeof document === 'string') return document;
    const object = new Fields(document, `${name}[${i}]`, fields.policy);
    const text = object.string('text') ?? object.refuse('text', 'is missing');
    object.end();
    return text;
  });
}

/** A text or several, by one of two names. */
function textsOf(fields: Fields, name: string, other: string): readonly string[] {
  const used = fields.has(other) && !fields.has(name) ? other : name;
  fields.ignore(name, other);
  const given = fields.any(used);
  if (given === undefined) return fields.refuse(used, 'is missing');
  const texts = typeof given === 'string' ? [given] : fields.strings(used);
  return texts === undefined || texts.length === 0 ? fields.refuse(used, 'is empty') : texts;
}
