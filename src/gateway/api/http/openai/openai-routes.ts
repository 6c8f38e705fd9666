import type { OfferedModel } from '../../models.js';
import type { HttpContext } from '../context.js';
import type { Exchange } from '../exchange.js';

/** OpenAI's `GET /v1/models`. */
export async function listModels(exchange: Exchange, context: HttpContext): Promise<void> {
  exchange.json({ object: 'list', data: context.models.all.map((model) => modelOf(model, context)) });
}

/** OpenAI's `GET /v1/models/{model}`. */
export async function getModel(exchange: Exchange, context: HttpContext, name: string): Promise<void> {
  const model = context.models.named(name);
  // Whose name it is, where there is one model alone.
  model.inference.getModel({ model: name });
  exchange.json(modelOf(model, context));
}

/** `meta` and `status` as llama.cpp has them, with the reason why requests are rejected. */
function modelOf(model: OfferedModel, { factsOf, started }: HttpContext): unknown {
  const { name, contextLength, vocabularySize, parameters, loaded } = model.inference.describe();
  const { aliases, tags } = factsOf(model);
  const { refusal } = model.inference;
  return {
    id: name,
    object: 'model',
    created: started,
    owned_by: 'rocmforge',
    aliases: [name, ...aliases],
    tags,
    max_model_len: contextLength,
    status: {
      value: loaded ? 'loaded' : model.isUnloaded() ? 'unloaded' : 'loading',
      ...(refusal && { reason: refusal.reason, message: refusal.message }),
    },
    meta: { n_vocab: vocabularySize, n_ctx: contextLength, n_params: Number(parameters) },
  };
}
