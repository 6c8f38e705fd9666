import { RocmForgeError } from '../../../../shared/errors.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { DEFAULT_SETTINGS } from './completion-request.js';

/** How llama.cpp writes that a seed is drawn for each request. */
const RANDOM_SEED = 2 ** 32 - 1;

/** llama.cpp's `GET /props`, as far as it is true here. */
export async function props(exchange: Exchange, { facts, inference, sequences }: HttpContext): Promise<void> {
  const [model] = inference.listModels().models;
  exchange.json({
    default_generation_settings: {
      n_ctx: facts.contextLength,
      params: { ...DEFAULT_SETTINGS, seed: Number(facts.seed ?? RANDOM_SEED) },
    },
    total_slots: sequences(),
    model_alias: facts.model,
    model_path: facts.modelFile,
    modalities: { vision: false, audio: false },
    chat_template: facts.chatTemplate ?? '',
    bos_token: facts.bosToken,
    eos_token: facts.eosToken,
    build_info: facts.version,
    is_sleeping: model?.ready !== true,
  });
}

/**
 * llama.cpp's `GET /slots`, without a word of what runs in them: which sequence has which slot is the executor's affair.
 *
 * @throws RocmForgeError `SWITCHED_OFF`
 */
export async function slots(exchange: Exchange, { facts, sequences, running, shows }: HttpContext): Promise<void> {
  if (!shows.slots) {
    throw new RocmForgeError('SWITCHED_OFF', 'slots are told where the gateway is started with --http-slots', {
      field: 'path',
    });
  }
  const busy = running();
  const slot = (id: number) => ({ id, n_ctx: facts.contextLength, is_processing: id < busy });
  exchange.json(Array.from({ length: sequences() }, (_, id) => slot(id)));
}

/** llama.cpp's `GET /health`, which load balancers ask. */
export async function health(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  if (inference.listModels().models[0]?.ready) exchange.json({ status: 'ok' });
  else throw new RocmForgeError('MODEL_LOADING', 'the model is not served now', { retry_delay_ms: '1000' });
}
