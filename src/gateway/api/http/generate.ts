import { asRocmForgeError } from '../../../shared/errors.js';
import type { GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import { LargeRequest } from '../../../shared/grpc/strict.js';
import type { WaitingCall } from '../inference.js';
import { INLINE_MESSAGE_BYTES } from '../method-bytes.js';
import { type OfferedModel, unloadsNone } from '../models.js';
import { MessagesResponse } from './anthropic/messages-response.js';
import type { HttpContext, HttpFacts } from './context.js';
import { EventStream } from './event-stream.js';
import type { Exchange } from './exchange.js';
import { type FieldNames, inTermsOf } from './field-names.js';
import { type IgnoredFieldLog, ignoredFieldsHeader } from './field-policy.js';
import { parseJson, readGeneration } from './json-forms.js';
import { checkAutoload } from './llama/autoload.js';
import { LlamaResponse } from './llama/llama-response.js';
import type { OllamaForm } from './ollama/ollama-form.js';
import { OllamaResponse } from './ollama/ollama-response.js';
import { OpenAiResponse } from './openai/openai-responses.js';
import { type EndedResponse, ResponsesResponse } from './openai/responses-writer.js';
import { streamEach } from './prompt-streams.js';
import type { AnswerForm, AnswerKind, FormDefaults, ResponseWriter } from './request.js';

/** Runs a generation of any API. @throws RocmForgeError why it cannot run; nothing was written then */
export async function generate(kind: AnswerKind, exchange: Exchange, context: HttpContext): Promise<void> {
  const { client } = exchange;
  const parsed = await parseRequest(kind, await exchange.body(), client, context);
  const { model, messages, form, ignored, writer } = parsed;
  exchange.fieldNames = parsed.names;
  const { inference } = model;
  checkAutoload(exchange, model);
  const keepsAlive = form.ollama === undefined || keepAlive(form.ollama, model);
  reportIgnored(keepsAlive ? ignored : [...ignored, 'keep_alive'], exchange, context.ignoredFields);
  if (messages.length === 0 && writer instanceof OllamaResponse) {
    const reason = await loadOrUnload(form.ollama as OllamaForm, model, keepsAlive, client.signal);
    exchange.json(writer.loaded(reason));
    return;
  }
  if (form.isStream) {
    const kept = context.streams.begin(exchange);
    const stream = new EventStream(kept ?? exchange, writer);
    kept?.writtenBy({ stop: (error) => stream.fail(error), isLoaded: () => inference.describe().loaded });
    // The client of a kept stream may go and come back.
    const caller = kept === undefined ? client : { ...client, signal: kept.signal, cancel: () => kept.cancel() };
    try {
      await streamEach(messages, stream, caller.signal, (message, part) =>
        inference.generateStream(message, caller, part),
      );
    } catch (error) {
      if (kept === undefined) throw error;
      kept.fail(asRocmForgeError(error));
    }
    return;
  }
  const responses = await inference.generateAll(messages, client, () => writer.begin());
  // Undefined: the client has disconnected.
  if (responses !== undefined) await exchange.largeJson(writer.unaryBody(responses));
}

/**
 * Runs a generation of any API to its end. @param bytes its request, which asks for no stream
 *
 * @returns the body of its response and the names of ignored fields
 * @throws RocmForgeError why it cannot run or did not end
 */
export async function generateWhole(
  kind: AnswerKind,
  bytes: Buffer,
  client: WaitingCall,
  context: HttpContext,
): Promise<{ readonly body: unknown; readonly ignored: readonly string[] }> {
  const { model, messages, ignored, names, writer } = await parseRequest(kind, bytes, client, context);
  const responses = await model.inference
    .generateAll(messages, client, () => writer.begin())
    .catch((error: unknown) => {
      throw inTermsOf(asRocmForgeError(error), names);
    });
  return { body: responses === undefined ? null : writer.unaryBody(responses), ignored };
}

/** Parses a request and resolves its model and the stored responses that it refers to. */
async function parseRequest(kind: AnswerKind, bytes: Buffer, client: WaitingCall, context: HttpContext) {
  const model = await context.models.ofJson(bytes, client);
  const { hasChatTemplate, fillIn } = model.served;
  const defaults = { ...context.defaults, hasChatTemplate, fillIn };
  const first = await read(kind, bytes, model, defaults, client);
  const needs = first.form.responses?.needs;
  const stored = needs && context.responses.resolve(client.principal, needs);
  const { messages, form, ignored, names } = stored
    ? await read(kind, bytes, model, { ...defaults, stored }, client)
    : first;
  const writer = writerOf(form, names, context.factsOf(model), (ended) => {
    if (form.responses?.turns !== undefined) context.responses.put(client.principal, ended, form.responses.turns);
  });
  return { model, messages, form, ignored, names, writer };
}

/** Sets how long the model stays loaded. @returns false if the request says so and the gateway does not unload models */
function keepAlive({ keepAliveMs }: OllamaForm, model: OfferedModel): boolean {
  return keepAliveMs === undefined || model.keepAlive(keepAliveMs);
}

/**
 * A request of Ollama's API without a prompt.
 *
 * @throws RocmForgeError `SWITCHED_OFF` if it is to unload the model and the gateway unloads none; `MODEL_NOT_FOUND`
 */
async function loadOrUnload(
  { model: name, keepAliveMs }: OllamaForm,
  model: OfferedModel,
  keepsAlive: boolean,
  signal: AbortSignal,
): Promise<'load' | 'unload'> {
  model.inference.getModel({ model: name });
  if (keepAliveMs !== 0) {
    await model.wake(signal);
    return 'load';
  }
  if (keepsAlive) return 'unload';
  throw unloadsNone('keep_alive');
}

/** Names the ignored fields in a header of the answer, and in the log. */
export function reportIgnored(names: readonly string[], { response }: Exchange, log: IgnoredFieldLog): void {
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
  readonly names: FieldNames;
}> {
  if (bytes.length <= INLINE_MESSAGE_BYTES && !encoder.budget.isSpent) {
    return encoder.budget.spend(() => readGeneration(kind, parseJson(bytes), defaults));
  }
  const { messages, form, ...rest } = await encoder.readJson(kind, bytes, defaults, client);
  return { messages: messages.map((message) => new LargeRequest(message)), form: form as AnswerForm, ...rest };
}

function writerOf(
  form: AnswerForm,
  names: FieldNames,
  facts: HttpFacts,
  onEnd: (ended: EndedResponse) => void,
): ResponseWriter {
  if (form.responses !== undefined) return new ResponsesResponse(form.responses, facts, onEnd, form, names);
  if (form.ollama !== undefined) return new OllamaResponse(form.ollama, facts, form.logprobs !== undefined);
  if (form.kind === 'messages') return new MessagesResponse(facts);
  return form.kind === 'llama'
    ? new LlamaResponse(form, facts)
    : new OpenAiResponse({ ...form, kind: form.kind === 'completion' ? 'completion' : 'chat' }, facts);
}
