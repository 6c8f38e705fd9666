import { readFileSync } from 'node:fs';
import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import { LargeRequest } from '../../../shared/grpc/strict.js';
import type { WaitingCall } from '../inference.js';
import { INLINE_MESSAGE_BYTES } from '../method-bytes.js';
import type { OfferedModel } from '../models.js';
import { MessagesResponse } from './anthropic/messages-response.js';
import type { HttpContext, HttpFacts } from './context.js';
import { anthropicError, inTermsOf, llamaError, openAiError } from './errors.js';
import { EventStream } from './event-stream.js';
import type { Exchange } from './exchange.js';
import { type IgnoredFieldLog, ignoredFieldsHeader } from './field-policy.js';
import { parseJson, readGeneration } from './json-forms.js';
import { LlamaResponse } from './llama/llama-response.js';
import { health, props, slots } from './llama/llama-routes.js';
import { metrics } from './llama/metrics.js';
import { OpenAiResponse } from './openai/openai-responses.js';
import { getModel, listModels } from './openai/openai-routes.js';
import { deleteResponse, getResponse } from './openai/responses-routes.js';
import { type EndedResponse, ResponsesResponse } from './openai/responses-writer.js';
import { streamEach } from './prompt-streams.js';
import type { AnswerForm, AnswerKind, ErrorForm, FormDefaults, ResponseWriter } from './request.js';
import { FIELD_NAMES } from './sampling-fields.js';
import type { TextForm } from './text-responses.js';

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

const openAiForm: ErrorForm = (error) => openAiError(inTermsOf(error, FIELD_NAMES));
const LLAMA_NAMES = new Map([...FIELD_NAMES, ['stop.max_tokens', 'n_predict'], ['output.logprobs', 'n_probs']]);
const llamaForm: ErrorForm = (error) => llamaError(inTermsOf(error, LLAMA_NAMES));
const ANTHROPIC_NAMES = new Map([...FIELD_NAMES, ['stop.strings', 'stop_sequences']]);
const anthropicForm: ErrorForm = (error) => anthropicError(inTermsOf(error, ANTHROPIC_NAMES));

const PAGE = readFileSync(new URL('page.html', import.meta.url), 'utf8');

const get = (path: Route['path'], errorForm: ErrorForm, handle: Route['handle'], access: Route['access'] = 'call') =>
  ({ method: 'GET', path, errorForm, handle, access }) as const;
const aboutText = (path: Route['path'], errorForm: ErrorForm, form: TextForm) =>
  ({
    method: 'POST',
    path,
    errorForm,
    access: 'call',
    handle: async (exchange: Exchange, { models, defaults, ignoredFields }: HttpContext) => {
      const bytes = await exchange.body();
      const { encoder } = await models.ofJson(bytes, exchange.client);
      const answer = await encoder.answerText(form, bytes, defaults, exchange.client);
      reportIgnored(answer.ignored, exchange, ignoredFields);
      exchange.jsonBytes(answer.bytes);
    },
  }) as const;
const generating = (path: Route['path'], errorForm: ErrorForm, kind: AnswerKind) =>
  ({
    method: 'POST',
    path,
    errorForm,
    access: 'generation',
    handle: (exchange: Exchange, context: HttpContext) => generate(kind, exchange, context),
  }) as const;

/** All that the HTTP server serves; Connect's methods come beside it. `docs/http.md` describes them. */
export const ROUTES: readonly Route[] = [
  // The page shows nothing by itself, and those who balance load have no credential.
  get('/', openAiForm, page, 'open'),
  get(/^(?:\/v1)?\/models$/, openAiForm, listModels),
  get(/^(?:\/v1)?\/models\/(.+)$/, openAiForm, getModel),
  generating(/^(?:\/v1)?\/chat\/completions$/, openAiForm, 'chat'),
  generating('/v1/completions', openAiForm, 'completion'),
  generating('/v1/responses', openAiForm, 'responses'),
  get(/^\/v1\/responses\/([^/]+)$/, openAiForm, getResponse),
  { ...get(/^\/v1\/responses\/([^/]+)$/, openAiForm, deleteResponse), method: 'DELETE' },
  generating(/^\/completions?$/, llamaForm, 'llama'),
  generating('/v1/messages', anthropicForm, 'messages'),
  aboutText('/v1/messages/count_tokens', anthropicForm, 'messagesTokens'),
  aboutText('/tokenize', llamaForm, 'tokenize'),
  aboutText('/detokenize', llamaForm, 'detokenize'),
  aboutText('/apply-template', llamaForm, 'template'),
  get('/props', llamaForm, props),
  get('/slots', llamaForm, slots),
  get('/metrics', llamaForm, metrics),
  get(/^(?:\/v1)?\/health$/, llamaForm, health, 'open'),
  aboutText(/^(?:\/v1)?\/chat\/completions\/input_tokens$/, openAiForm, 'inputTokens'),
];

/** Error for a request with another path. */
const SUPPORTED_PATHS = [
  ...['/v1/chat/completions', '/v1/completions', '/v1/responses', '/v1/messages', '/v1/messages/count_tokens'],
  ...['/v1/models', '/completion', '/tokenize', '/detokenize', '/apply-template', '/props', '/health'],
].join(', ');

/** The form of errors of a request that no route takes. */
export const unroutedErrorForm = (path: string): ErrorForm =>
  path.startsWith('/v1/messages') ? anthropicForm : openAiForm;

async function page(exchange: Exchange, { shows }: HttpContext): Promise<void> {
  if (!shows.page) throw new RocmForgeError('PATH_NOT_FOUND', 'there is no page here', { field: 'path' });
  exchange.text(PAGE, 'text/html; charset=utf-8');
}

/** @throws RocmForgeError why it cannot run; nothing was written then */
async function generate(kind: AnswerKind, exchange: Exchange, context: HttpContext): Promise<void> {
  const { client } = exchange;
  const bytes = await exchange.body();
  const model = await context.models.ofJson(bytes, client);
  const { inference } = model;
  const first = await read(kind, bytes, model, context.defaults, client);
  const needs = first.form.responses?.needs;
  const stored = needs && context.responses.resolve(client.principal, needs);
  const { messages, form, ignored } = stored
    ? await read(kind, bytes, model, { ...context.defaults, stored }, client)
    : first;
  reportIgnored(ignored, exchange, context.ignoredFields);
  const writer = writerOf(form, context.factsOf(model), (ended) => {
    if (form.responses?.turns !== undefined) context.responses.put(client.principal, ended, form.responses.turns);
  });
  if (form.isStream) {
    const stream = new EventStream(exchange, writer);
    await streamEach(messages, stream, client.signal, (message, part) =>
      inference.generateStream(message, client, part),
    );
    return;
  }
  const responses = await inference.generateAll(messages, client, () => writer.begin());
  // None, and nobody waits for it any more.
  if (responses !== undefined) await exchange.largeJson(writer.unaryBody(responses));
}

/** Names the ignored fields in a header of the answer, and in the log. */
function reportIgnored(names: readonly string[], { response }: Exchange, log: IgnoredFieldLog): void {
  if (names.length === 0) return;
  if (!response.headersSent) response.setHeader('x-rocmforge-ignored-fields', ignoredFieldsHeader(names));
  log.note(names);
}

/** Small requests are read at once, large ones in a thread, as those of gRPC are. */
async function read(
  kind: AnswerKind,
  bytes: Buffer,
  { encoder }: OfferedModel,
  defaults: FormDefaults,
  client: WaitingCall,
): Promise<{
  readonly messages: readonly (GenerateStreamRequest | LargeRequest)[];
  readonly form: AnswerForm;
  readonly ignored: readonly string[];
}> {
  if (bytes.length <= INLINE_MESSAGE_BYTES && !encoder.budget.isSpent) {
    return encoder.budget.spend(() => readGeneration(kind, parseJson(bytes), defaults));
  }
  const { messages, form, ignored } = await encoder.readJson(kind, bytes, defaults, client);
  return { messages: messages.map((message) => new LargeRequest(message)), form: form as AnswerForm, ignored };
}

function writerOf(form: AnswerForm, facts: HttpFacts, onEnd: (ended: EndedResponse) => void): ResponseWriter {
  if (form.responses !== undefined) return new ResponsesResponse(form.responses, facts, onEnd);
  if (form.kind === 'messages') return new MessagesResponse(facts);
  return form.kind === 'llama'
    ? new LlamaResponse(form, facts)
    : new OpenAiResponse({ ...form, kind: form.kind === 'completion' ? 'completion' : 'chat' }, facts);
}

/** The route of a request, and what its path matched. */
export interface Found {
  readonly route: Route;
  readonly matched: readonly string[];
}

/** The route of a request, or why there is none. */
export function routeOf(method: string, path: string): Found | RocmForgeError {
  const there: string[] = [];
  for (const route of ROUTES) {
    const match = typeof route.path === 'string' ? (route.path === path ? [path] : null) : route.path.exec(path);
    if (match === null) continue;
    if (route.method === method || (route.method === 'GET' && method === 'HEAD')) {
      return { route, matched: match.slice(1).map(decoded) };
    }
    there.push(route.method);
  }
  const field = 'path';
  if (there.length > 0) {
    const cors =
      method === 'OPTIONS' ? '; web pages may not call it: CORS is off, start the gateway with --cors-origins' : '';
    const message = `"${path}" supports ${there.join(' and ')}, not ${method}${cors}`;
    return new RocmForgeError('METHOD_NOT_ALLOWED', message, { field });
  }
  return new RocmForgeError('PATH_NOT_FOUND', `"${path}" is not found; supported: ${SUPPORTED_PATHS}`, { field });
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
