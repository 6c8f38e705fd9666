import { RocmForgeError } from '../../../../shared/errors.js';
import { type OfferedModel, withoutLatestTag } from '../../models.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import { parseJson } from '../json-forms.js';
import { capabilitiesOf, detailsOf, listedModel, modelInfo, modelParameters } from './model-details.js';

/** The version of Ollama whose API this is: clients compare it with the least that they need. */
const API_VERSION = '0.12.11';

/** The time of a model that is not unloaded by itself. */
const NEVER = '9999-12-31T23:59:59Z';

/** A request about one model is small. */
const MOST_BODY_BYTES = 64 << 10;

/** Ollama's `GET /api/version`. */
export async function version(exchange: Exchange): Promise<void> {
  exchange.json({ version: API_VERSION });
}

/** Ollama's `GET /api/tags`: the served models. */
export async function tags(exchange: Exchange, { models }: HttpContext): Promise<void> {
  exchange.json({
    models: models.all.map((model) => ({ ...listedModel(model), modified_at: modifiedAt(model) })),
  });
}

/** Ollama's `GET /api/ps`: the loaded models. */
export async function ps(exchange: Exchange, { models }: HttpContext): Promise<void> {
  const loaded = models.all.filter(({ inference }) => inference.describe().loaded);
  exchange.json({
    models: loaded.map((model) => {
      const at = model.unloadsAt();
      const { device, contextLength } = model.inference.describe();
      return {
        ...listedModel(model),
        expires_at: Number.isFinite(at) ? new Date(at).toISOString() : NEVER,
        // The weights are in the device's memory; kernels on the host read the mapped file.
        size_vram: /^(host|cpu)/i.test(device) ? 0 : model.served.file.bytes,
        context_length: contextLength,
      };
    }),
  });
}

/** Ollama's `POST /api/show`. @throws RocmForgeError `INVALID_FIELD`, `MODEL_NOT_FOUND` */
export async function show(exchange: Exchange, context: HttpContext): Promise<void> {
  const fields = await smallBody(exchange, context);
  const model = modelNamed(modelField(fields), context);
  fields.ignore('verbose', 'options', 'system', 'template');
  fields.end();
  const facts = context.factsOf(model);
  const { metadata } = model.served.file.header;
  exchange.json({
    modelfile: `FROM ${facts.modelFile}\n`,
    parameters: modelParameters(facts),
    template: facts.chatTemplate ?? '',
    license: metadata.string('general.license') ?? '',
    details: detailsOf(model),
    model_info: modelInfo(metadata),
    capabilities: capabilitiesOf(model),
    modified_at: modifiedAt(model),
  });
}

/** The fields of a small JSON body. @throws RocmForgeError `MALFORMED_MESSAGE`, `INVALID_FIELD` */
export async function smallBody(exchange: Exchange, { defaults }: HttpContext): Promise<Fields> {
  const bytes = await exchange.body(MOST_BODY_BYTES);
  return new Fields(parseJson(bytes), '', new FieldPolicy(defaults.strictFields ?? false));
}

/** The model that a request names. @throws RocmForgeError `INVALID_FIELD` */
export function modelField(fields: Fields): string {
  const name = fields.string('model') ?? fields.string('name') ?? fields.refuse('model', 'is missing');
  fields.ignore('name');
  return name;
}

/** @throws RocmForgeError `MODEL_NOT_FOUND` */
export function modelNamed(name: string, { models }: HttpContext): OfferedModel {
  const model = models.named(name);
  model.inference.getModel({ model: name });
  return model;
}

/** True if a model of that name is served. */
export function isServed(name: string, { models }: HttpContext): boolean {
  const known = models.all.flatMap(({ served: { facts } }) => [facts.modelName, ...(facts.modelAliases ?? [])]);
  return known.includes(name) || known.includes(withoutLatestTag(name));
}

const modifiedAt = ({ served }: OfferedModel): string => new Date(served.file.modifiedMs).toISOString();

/** Ollama's requests that change its store of models. @throws RocmForgeError `NOT_IMPLEMENTED` always */
export async function unsupported(exchange: Exchange): Promise<void> {
  const path = (exchange.request.url ?? '').replace(/\?.*$/s, '');
  const what = `${path} is not supported: models are those that the gateway was started with`;
  throw new RocmForgeError('NOT_IMPLEMENTED', what, { field: 'path' });
}
