import { isJsonObject, jsonText } from '../../../lib/json/exact-json.js';
import { asRocmForgeError } from '../../../shared/errors.js';
import { runWithin } from '../../request/within-streams.js';
import { callSignal } from '../call-signal.js';
import type { WaitingCall } from '../inference.js';
import type { HttpContext } from './context.js';
import type { Exchange } from './exchange.js';
import { FieldPolicy } from './field-policy.js';
import { Fields } from './fields.js';
import { generateWhole, reportIgnored } from './generate.js';
import { parseJson } from './json-forms.js';
import { JsonText, jsonOf } from './json-slices.js';
import type { AnswerKind, ErrorForm } from './request.js';

/** Bytes and instances of a request, which is read on the serving thread. */
const MOST_BYTES = 256 << 10;
const MOST_INSTANCES = 64;

/** Names of request formats as llama.cpp derives them from its paths. */
const FORMATS: Readonly<Record<string, AnswerKind>> = {
  chatCompletions: 'chat',
  completions: 'completion',
  completion: 'llama',
  responses: 'responses',
  messages: 'messages',
  infill: 'infill',
};

/**
 * Vertex AI's `POST /predict`: instances, each a request of another path as its `@requestFormat` says. The prediction of an
 * instance that fails is its error.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `MALFORMED_MESSAGE`, `MESSAGE_TOO_LARGE`
 */
export async function predict(exchange: Exchange, context: HttpContext, errorForm: ErrorForm): Promise<void> {
  const body = parseJson(await exchange.body(MOST_BYTES));
  const policy = new FieldPolicy(context.defaults.strictFields ?? false);
  const fields = new Fields(body, '', policy);
  const instances = fields.list('instances') ?? fields.refuse('instances', 'is missing');
  if (instances.length > MOST_INSTANCES) {
    fields.refuse('instances', `has ${instances.length} entries, more than ${MOST_INSTANCES}`);
  }
  fields.reportIgnored('parameters');
  fields.end();
  const { trust } = context;
  // An instance is read before it runs: how many may is known now.
  const most = Math.max(1, Math.min(MOST_INSTANCES, trust.limiter.freeStreams(exchange.client.principal)));
  const predictions = await runWithin(
    instances,
    { most, mayBegin: () => true, signal: exchange.signal },
    async (instance, i) => {
      try {
        const fields = new Fields(instance, `instances[${i}]`, policy);
        const { body, ignored } = await predictionOf(fields, instance, exchange.client, context);
        for (const name of ignored) policy.ignore(`instances[].${name}`);
        return body;
      } catch (thrown) {
        const error = asRocmForgeError(thrown);
        // Counted and logged as if it had come by itself.
        exchange.refused(error);
        return errorForm(error).body;
      }
    },
  );
  if (exchange.signal.aborted) return;
  reportIgnored(policy.ignored, exchange, context.ignoredFields);
  await exchange.largeJson({ predictions });
}

/** @returns the body of an instance's response as JSON, and the names of its ignored fields */
async function predictionOf(
  fields: Fields,
  instance: unknown,
  client: WaitingCall,
  context: HttpContext,
): Promise<{ readonly body: JsonText; readonly ignored: readonly string[] }> {
  const format = fields.string('@requestFormat');
  const kind = format !== undefined && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  if (kind === undefined || !isJsonObject(instance)) {
    return fields.refuse('@requestFormat', `must be one of ${Object.keys(FORMATS).join(', ')}`);
  }
  // A prediction is never a stream.
  fields.reportUnless('stream', false);
  fields.reportIgnored('stream_options');
  const { '@requestFormat': _, stream: __, stream_options: ___, ...request } = instance;
  const ended = new AbortController();
  // One that fails ends its own generations, not those of the others.
  const own = {
    ...client,
    signal: callSignal(AbortSignal.any([client.signal, ended.signal])),
    cancel: () => ended.abort(),
  };
  const { body, ignored } = await generateWhole(kind, Buffer.from(jsonText(request)), own, context);
  return { body: new JsonText(jsonOf(body)), ignored };
}
