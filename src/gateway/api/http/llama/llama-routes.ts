import { RocmForgeError } from '../../../../shared/errors.js';
import type { OfferedModel } from '../../models.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { queried } from './autoload.js';
import { DEFAULT_SETTINGS } from './llama-completion-request.js';

/** llama.cpp's value for a seed that is drawn for each request. */
const RANDOM_SEED = 2 ** 32 - 1;

/**
 * The model that a path's query names, as llama.cpp's router has it; else the first.
 *
 * @throws RocmForgeError `MODEL_NOT_FOUND`
 */
function modelOf({ request }: Exchange, { models }: HttpContext): OfferedModel {
  const name = queried(request, 'model') ?? '';
  const model = models.named(name);
  // If it is the only one, it checks its name itself.
  model.inference.getModel({ model: name });
  return model;
}

/** llama.cpp's `GET /props`, as far as it is true here. */
export async function props(exchange: Exchange, context: HttpContext): Promise<void> {
  const model = modelOf(exchange, context);
  const { ready } = model.inference.describe();
  const facts = context.factsOf(model);
  // llama.cpp's clients find the properties of each of several models by its name.
  const isRouter = context.models.all.length > 1 && queried(exchange.request, 'model') === null;
  const { maxModels, isOnRequest } = context.loading;
  exchange.json({
    role: isRouter ? 'router' : 'model',
    ...(isRouter && { max_instances: maxModels, models_autoload: isOnRequest }),
    default_generation_settings: {
      n_ctx: facts.contextLength,
      params: { ...DEFAULT_SETTINGS, seed: Number(facts.seed ?? RANDOM_SEED) },
    },
    total_slots: model.load().slots,
    model_alias: facts.model,
    model_path: facts.modelFile,
    modalities: { vision: false, audio: false },
    chat_template: facts.chatTemplate ?? '',
    bos_token: facts.bosToken,
    eos_token: facts.eosToken,
    // As there, it is the fingerprint of responses.
    build_info: facts.fingerprint,
    is_sleeping: !ready || model.isUnloaded(),
  });
}

/**
 * llama.cpp's `GET /slots`, without a word of what runs in them: which sequence has which slot is the executor's affair.
 *
 * @throws RocmForgeError `SWITCHED_OFF`
 */
export async function slots(exchange: Exchange, context: HttpContext): Promise<void> {
  if (!context.shows.slots) {
    throw new RocmForgeError('SWITCHED_OFF', '/slots is disabled; start the gateway with --http-slots', {
      field: 'path',
    });
  }
  const model = modelOf(exchange, context);
  const { contextLength } = context.factsOf(model);
  const { running, slots } = model.load();
  const slot = (id: number) => ({ id, n_ctx: contextLength, is_processing: id < running });
  exchange.json(Array.from({ length: slots }, (_, id) => slot(id)));
}

/**
 * llama.cpp's `GET /health`, which load balancers ask.
 *
 * @throws RocmForgeError the one that a request without a model name would get now; `MODEL_LOADING` if it would wait
 */
export async function health(exchange: Exchange, { models }: HttpContext): Promise<void> {
  if (models.isReady) exchange.json({ status: 'ok' });
  else {
    const waiting = new RocmForgeError('MODEL_LOADING', 'no executor serves the model now; requests wait for one', {
      retry_delay_ms: '1000',
    });
    throw models.first.inference.refusal ?? waiting;
  }
}
