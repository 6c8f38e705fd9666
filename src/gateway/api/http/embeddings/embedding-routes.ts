import { dot, type EmbeddedPrompts } from '../../embeddings.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { reportIgnored } from '../generate.js';
import { Listed } from '../json-slices.js';
import { checkAutoload } from '../llama/autoload.js';
import type { EmbeddingForm, EmbeddingKind } from './embedding-fields.js';

/** Facts that a response is written with. */
interface Written {
  readonly form: EmbeddingForm;
  /** Name of the model in the response. */
  readonly model: string;
  /** Elapsed time in ns. */
  readonly ns: number;
}

/**
 * Answers a request for embeddings or scores.
 *
 * @throws RocmForgeError why they cannot be computed; nothing was written then
 */
export async function embed(kind: EmbeddingKind, exchange: Exchange, context: HttpContext): Promise<void> {
  const { client } = exchange;
  const began = performance.now();
  const bytes = await exchange.body();
  const model = await context.models.ofJson(bytes, client);
  checkAutoload(exchange, model);
  const { embeddings } = model;
  const opened = await embeddings.openJson(kind, bytes, context.defaults, client);
  const { form } = opened;
  const keepsAlive = form.keepAliveMs === undefined || model.keepAlive(form.keepAliveMs);
  reportIgnored(keepsAlive ? opened.ignored : [...opened.ignored, 'keep_alive'], exchange, context.ignoredFields);
  const write = { form, model: form.model || model.served.name };
  const elapsed = (): number => Math.round((performance.now() - began) * 1e6);
  if (form.kind === 'rerank' || form.kind === 'score') {
    const scored = form.isRanked
      ? await embeddings.scores(opened, client)
      : compared(await embeddings.vectors(opened, client), form);
    if (scored !== undefined) await exchange.largeJson(scoresOf(scored, { ...write, ns: elapsed() }));
    return;
  }
  const embedded = await embeddings.vectors(opened, client);
  if (embedded !== undefined) await exchange.largeJson(embeddingsOf(embedded, { ...write, ns: elapsed() }));
}

/** Cosines of the embeddings of texts, which are normalized. */
function compared(
  embedded: EmbeddedPrompts<Float32Array> | undefined,
  { pairs }: EmbeddingForm,
): EmbeddedPrompts<number> | undefined {
  if (embedded === undefined) return undefined;
  const { values } = embedded;
  return { ...embedded, values: pairs.map(([a, b]) => dot(values[a] as Float32Array, values[b] as Float32Array)) };
}

function embeddingsOf({ values, tokens }: EmbeddedPrompts<Float32Array>, { form, model, ns }: Written): unknown {
  const count = tokens.reduce((sum, one) => sum + one, 0);
  const listed = (item: (vector: Float32Array, index: number) => unknown) =>
    new Listed(values.length, (i) => item(values[i] as Float32Array, i));
  switch (form.kind) {
    case 'ollamaEmbed':
      return {
        ...{ model, embeddings: listed(numbersOf) },
        ...{ total_duration: ns, load_duration: 0, prompt_eval_count: count },
      };
    case 'ollamaEmbeddings':
      return { embedding: numbersOf(values[0] as Float32Array) };
    case 'teiEmbed':
      return listed(numbersOf);
    case 'llamaEmbedding':
      // llama.cpp lists a vector a token; a pooled embedding is one.
      return listed((vector, index) => ({ index, embedding: rowsOf(vector, form.size).map(numbersOf) }));
    default:
      return {
        object: 'list',
        data: listed((vector, index) => ({
          ...{ object: 'embedding', index },
          embedding: form.isBase64 ? base64Of(vector) : numbersOf(vector),
          ...(form.isBase64 && { encoding_format: 'base64' }),
        })),
        ...{ model, usage: { prompt_tokens: count, total_tokens: count } },
      };
  }
}

/** Nine digits tell any two f32 apart. */
const numbersOf = (vector: Float32Array): readonly number[] =>
  Array.from(vector, (value) => Number(value.toPrecision(9)));

/** The vectors of `size` elements that follow each other. */
const rowsOf = (vectors: Float32Array, size = vectors.length): readonly Float32Array[] =>
  Array.from({ length: vectors.length / size }, (_, i) => vectors.subarray(i * size, (i + 1) * size));

const base64Of = ({ buffer, byteOffset, byteLength }: Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');

const sigmoid = (value: number): number => 1 / (1 + Math.exp(-value));

function scoresOf({ requestId, values, tokens }: EmbeddedPrompts<number>, { form, model }: Written): unknown {
  const count = tokens.reduce((sum, one) => sum + one, 0);
  const usage = { prompt_tokens: count, total_tokens: count };
  if (form.kind === 'score') {
    const data = values.map((value, index) => ({ index, object: 'score', score: value }));
    const created = Math.floor(Date.now() / 1000);
    return { id: `score-${requestId}`, object: 'list', created, model, data, usage };
  }
  const results = values
    .map((value, index) => ({
      index,
      ...(form.documents && { document: { text: form.documents[index] } }),
      relevance_score: value,
    }))
    .sort((a, b) => b.relevance_score - a.relevance_score || a.index - b.index)
    .slice(0, form.top ?? values.length)
    // Behind the order: sigmoids of large logits are equal.
    .map((result) => (form.isSigmoid ? { ...result, relevance_score: sigmoid(result.relevance_score) } : result));
  if (form.isList) {
    return results.map(({ index, document, relevance_score: score }) => ({ index, ...document, score }));
  }
  return { id: `rerank-${requestId}`, object: 'list', model, results, usage };
}
