import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import type { HttpContext } from './context.js';
import type { EmbeddingKind } from './embeddings/embedding-fields.js';
import { embed } from './embeddings/embedding-routes.js';
import { anthropicError, llamaError, ollamaError, openAiError, teiError } from './errors.js';
import type { Exchange } from './exchange.js';
import { generate, reportIgnored } from './generate.js';
import { loadsModel } from './llama/autoload.js';
import { loadModel, unloadModel } from './llama/llama-models.js';
import { health, props, slots } from './llama/llama-routes.js';
import { metrics } from './llama/metrics.js';
import { pull } from './ollama/ollama-pull.js';
import { ps, show, tags, unsupported, version } from './ollama/ollama-routes.js';
import { getModel, listModels } from './openai/openai-routes.js';
import { deleteResponse, getResponse } from './openai/responses-routes.js';
import { killExecutor, page, pageFile, pageState } from './page/page-routes.js';
import type { AnswerKind, ErrorForm } from './request.js';
import { resumeStream, stopStream } from './stream-routes.js';
import type { TextForm } from './text-responses.js';
import { predict } from './vertex-predict.js';

/** Handler of a path. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'DELETE';
  readonly path: string | RegExp;
  readonly errorForm: ErrorForm;
  /** Required trust. */
  readonly access: 'open' | 'call' | 'generation';
  /** @param matched the parts of the path that an expression's groups matched, decoded */
  handle(exchange: Exchange, context: HttpContext, ...matched: readonly string[]): Promise<void>;
}

const get = (path: Route['path'], errorForm: ErrorForm, handle: Route['handle'], access: Route['access'] = 'call') =>
  ({ method: 'GET', path, errorForm, handle, access }) as const;
/** Forms whose requests load an unloaded model, as llama.cpp's do. */
const COUNTING: ReadonlySet<TextForm> = new Set(['tokenize', 'inputTokens', 'responsesTokens', 'messagesTokens']);
const aboutText = (path: Route['path'], errorForm: ErrorForm, form: TextForm) =>
  ({
    method: 'POST',
    path,
    errorForm,
    access: 'call',
    handle: async (exchange: Exchange, { models, defaults, ignoredFields }: HttpContext) => {
      const bytes = await exchange.body();
      const model = await models.ofJson(bytes, exchange.client);
      const answer = await model.encoder.answerText(form, bytes, defaults, exchange.client);
      reportIgnored(answer.ignored, exchange, ignoredFields);
      // A prompt whose tokens are counted is about to be sent. The count needs no weights and does not wait for them.
      if (COUNTING.has(form) && loadsModel(exchange)) model.expect();
      exchange.jsonBytes(answer.bytes);
    },
  }) as const;
const posted = (path: Route['path'], errorForm: ErrorForm, handle: Route['handle']) =>
  ({ method: 'POST', path, errorForm, handle, access: 'call' }) as const;
const generating = (path: Route['path'], errorForm: ErrorForm, kind: AnswerKind) =>
  ({
    method: 'POST',
    path,
    errorForm,
    access: 'generation',
    handle: (exchange: Exchange, context: HttpContext) => generate(kind, exchange, context),
  }) as const;

const embedding = (path: Route['path'], errorForm: ErrorForm, kind: EmbeddingKind) =>
  ({
    method: 'POST',
    path,
    errorForm,
    access: 'generation',
    handle: (exchange: Exchange, context: HttpContext) => embed(kind, exchange, context),
  }) as const;

/** All that the HTTP server serves; Connect's methods come beside it. `docs/http.md` describes them. */
export const ROUTES: readonly Route[] = [
  // The page shows nothing by itself, and those who balance load have no credential.
  get('/', openAiError, page, 'open'),
  get(/^\/page\/([\w.-]+)$/, openAiError, pageFile, 'open'),
  get('/rocmforge/page', openAiError, pageState),
  posted('/rocmforge/kill-executor', openAiError, killExecutor),
  get(/^(?:\/v1)?\/models$/, openAiError, listModels),
  get(/^(?:\/v1)?\/models\/(.+)$/, openAiError, getModel),
  posted('/models/load', llamaError, loadModel),
  posted('/models/unload', llamaError, unloadModel),
  generating(/^(?:\/v1)?\/chat\/completions$/, openAiError, 'chat'),
  generating('/v1/completions', openAiError, 'completion'),
  generating(/^(?:\/v1)?\/responses$/, openAiError, 'responses'),
  get(/^(?:\/v1)?\/responses\/([^/]+)$/, openAiError, getResponse),
  { ...get(/^(?:\/v1)?\/responses\/([^/]+)$/, openAiError, deleteResponse), method: 'DELETE' },
  get('/v1/stream', openAiError, resumeStream),
  { ...get('/v1/stream', openAiError, stopStream), method: 'DELETE' },
  generating(/^\/completions?$/, llamaError, 'llama'),
  generating('/infill', llamaError, 'infill'),
  generating('/v1/messages', anthropicError, 'messages'),
  aboutText('/v1/messages/count_tokens', anthropicError, 'messagesTokens'),
  aboutText('/tokenize', llamaError, 'tokenize'),
  aboutText('/detokenize', llamaError, 'detokenize'),
  aboutText('/apply-template', llamaError, 'template'),
  get('/props', llamaError, props),
  get('/slots', llamaError, slots),
  get('/metrics', llamaError, metrics),
  get(/^(?:\/v1)?\/health$/, llamaError, health, 'open'),
  aboutText(/^(?:\/v1)?\/chat\/completions\/input_tokens$/, openAiError, 'inputTokens'),
  aboutText(/^(?:\/v1)?\/responses\/input_tokens$/, openAiError, 'responsesTokens'),
  aboutText('/v1/chat/completions/render', openAiError, 'renderChat'),
  aboutText('/v1/completions/render', openAiError, 'renderCompletions'),
  aboutText('/v1/chat/completions/derender', openAiError, 'derenderChat'),
  aboutText('/v1/completions/derender', openAiError, 'derenderCompletions'),
  {
    ...posted('/predict', openAiError, (exchange, context) => predict(exchange, context, openAiError)),
    access: 'generation',
  },
  embedding('/v1/embeddings', openAiError, 'embeddings'),
  embedding('/embeddings', openAiError, 'unversionedEmbeddings'),
  embedding('/embedding', llamaError, 'llamaEmbedding'),
  embedding(/^(?:\/v[12])?\/rerank(?:ing)?$/, openAiError, 'rerank'),
  embedding(/^(?:\/v1)?\/score$/, openAiError, 'score'),
  embedding('/api/embed', ollamaError, 'ollamaEmbed'),
  embedding('/api/embeddings', ollamaError, 'ollamaEmbeddings'),
  // Clients of Hugging Face's inference API post to the address itself.
  embedding(/^\/(?:embed)?$/, teiError, 'teiEmbed'),
  generating('/api/chat', ollamaError, 'ollamaChat'),
  generating('/api/generate', ollamaError, 'ollamaGenerate'),
  get('/api/tags', ollamaError, tags),
  get('/api/ps', ollamaError, ps),
  get('/api/version', ollamaError, version),
  posted('/api/show', ollamaError, show),
  posted('/api/pull', ollamaError, pull),
  posted(/^\/api\/(?:create|copy|push|blobs\/.+)$/, ollamaError, unsupported),
  { ...posted('/api/delete', ollamaError, unsupported), method: 'DELETE' },
];

/** The paths that clients ask for most: the error for another one names them. */
const SUPPORTED_PATHS = [
  ...['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages', '/v1/messages/count_tokens'],
  ...['/v1/models', '/completion', '/infill', '/tokenize', '/detokenize', '/apply-template', '/props', '/health'],
  ...['/v1/embeddings', '/v1/rerank', '/v1/score'],
  ...['/api/embed', '/api/chat', '/api/generate', '/api/tags', '/api/show', '/api/ps', '/api/version'],
].join(', ');

/** The form of errors of a request that no route takes. */
export const unroutedErrorForm = (path: string): ErrorForm =>
  path.startsWith('/v1/messages') ? anthropicError : path.startsWith('/api/') ? ollamaError : openAiError;

/** The route of a request, and what its path matched. */
export interface Found {
  readonly route: Route;
  readonly matched: readonly string[];
}

type MatchedRoutes = readonly (readonly [Route, readonly string[]])[];

const matchRoutes = (path: string): MatchedRoutes =>
  ROUTES.flatMap((route) => {
    const match = typeof route.path === 'string' ? (route.path === path ? [path] : null) : route.path.exec(path);
    return match === null ? [] : [[route, match] as const];
  });

/** Routes of the paths that are texts: nearly all requests have one of them. */
const KNOWN_PATHS: ReadonlyMap<string, MatchedRoutes> = new Map(
  ROUTES.flatMap(({ path }) => (typeof path === 'string' ? [[path, matchRoutes(path)]] : [])),
);

/** The routes of a path, whatever their method, with what it matched. */
const routesAt = (path: string): MatchedRoutes => KNOWN_PATHS.get(path) ?? matchRoutes(path);

/** The methods of a path, for the `allow` header. */
export const methodsAt = (path: string): readonly string[] => [
  ...new Set(routesAt(path).flatMap(([{ method }]) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))),
];

/** The route of a request, or why there is none. */
export function routeOf(method: string, path: string): Found | RocmForgeError {
  const at = routesAt(path);
  for (const [route, match] of at) {
    if (route.method === method || (route.method === 'GET' && method === 'HEAD')) {
      return { route, matched: match.slice(1).map(decoded) };
    }
  }
  const field = 'path';
  const there = at.map(([route]) => route.method);
  if (there.length > 0) {
    const cors =
      method === 'OPTIONS' ? '; web pages may not call it: CORS is off, start the gateway with --cors-origins' : '';
    const message = `"${path}" supports ${there.join(' and ')}, not ${method}${cors}`;
    return new RocmForgeError('METHOD_NOT_ALLOWED', message, { field });
  }
  return new RocmForgeError(
    'PATH_NOT_FOUND',
    `"${path}" is not found; supported, among others (docs/http.md lists all): ${SUPPORTED_PATHS}`,
    { field },
  );
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Serves one request. What goes wrong is told in the route's form. */
export async function serve({ route, matched }: Found, exchange: Exchange, context: HttpContext): Promise<void> {
  try {
    if (route.access !== 'open') await exchange.identify(route.access === 'generation');
    await route.handle(exchange, context, ...matched);
  } catch (error) {
    exchange.fail(asRocmForgeError(error));
  }
}
