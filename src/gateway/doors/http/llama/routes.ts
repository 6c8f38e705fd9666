import { RocmForgeError } from '../../../../shared/errors.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';
import { DEFAULT_SETTINGS } from './completion-request.js';

/** llama.cpp's `GET /props`, as far as it is true here. */
export async function props(exchange: Exchange, { facts, inference, sequences }: HttpContext): Promise<void> {
  const [model] = inference.listModels().models;
  exchange.json({
    default_generation_settings: { n_ctx: facts.contextLength, params: DEFAULT_SETTINGS },
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

/** llama.cpp's `GET /health`, which load balancers ask. */
export async function health(exchange: Exchange, { inference }: HttpContext): Promise<void> {
  if (inference.listModels().models[0]?.ready) exchange.json({ status: 'ok' });
  else throw new RocmForgeError('MODEL_LOADING', 'the model is not served now', { retry_delay_ms: '1000' });
}
