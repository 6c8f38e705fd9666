import { setImmediate } from 'node:timers/promises';
import { type OfferedModel, unloadsNone } from '../../models.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { FieldPolicy } from '../field-policy.js';
import { Fields } from '../fields.js';
import { reportIgnored } from '../generate.js';
import { parseJson } from '../json-forms.js';

/** A request about one model is small. */
const MOST_BODY_BYTES = 64 << 10;

/**
 * llama.cpp's `POST /models/load`: starts to load an unloaded model. `GET /models` reports when it is loaded.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `MODEL_NOT_FOUND`; `MODEL_UNLOADED` if an operator has unloaded it
 */
export async function loadModel(exchange: Exchange, context: HttpContext): Promise<void> {
  const model = await modelOf(exchange, context);
  const waking = model.wake();
  // A loaded model may be about to be unloaded.
  waking.catch(() => undefined);
  // One that an operator has unloaded is refused at once; the load itself takes longer.
  await Promise.race([waking, setImmediate()]);
  exchange.json({ success: true });
}

/**
 * llama.cpp's `POST /models/unload`: unloads a model when its requests have ended, until the next one comes.
 *
 * @throws RocmForgeError `INVALID_FIELD`, `MODEL_NOT_FOUND`; `SWITCHED_OFF` if the gateway does not unload models
 */
export async function unloadModel(exchange: Exchange, context: HttpContext): Promise<void> {
  const model = await modelOf(exchange, context);
  if (!(await model.unload(exchange.signal))) throw unloadsNone('path');
  exchange.json({ success: true });
}

async function modelOf(exchange: Exchange, context: HttpContext): Promise<OfferedModel> {
  const policy = new FieldPolicy(context.defaults.strictFields ?? false);
  const fields = new Fields(parseJson(await exchange.body(MOST_BODY_BYTES)), '', policy);
  const name = fields.string('model') ?? fields.refuse('model', 'is missing');
  fields.end();
  reportIgnored(policy.ignored, exchange, context.ignoredFields);
  const model = context.models.named(name);
  // Whose name it is, where there is one model alone.
  model.inference.getModel({ model: name });
  return model;
}
