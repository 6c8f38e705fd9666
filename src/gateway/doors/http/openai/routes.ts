import type { HttpContext, HttpFacts } from '../context.js';
import type { Exchange } from '../exchange.js';

/** OpenAI's `GET /v1/models`. */
export async function listModels(exchange: Exchange, { inference, facts, started }: HttpContext): Promise<void> {
  const data = inference.listModels().models.map((model) => modelOf(model, facts, started));
  exchange.json({ object: 'list', data });
}

/** OpenAI's `GET /v1/models/{model}`. */
export async function getModel(
  exchange: Exchange,
  { inference, facts, started }: HttpContext,
  name: string,
): Promise<void> {
  const { model } = inference.getModel({ model: name });
  exchange.json(model && modelOf(model, facts, started));
}

/** `meta` as llama.cpp has it. */
function modelOf(
  model: { name: string; contextLength: number; vocabularySize: number; parameters: bigint },
  { aliases, tags }: HttpFacts,
  started: number,
): unknown {
  const { name, contextLength, vocabularySize, parameters } = model;
  return {
    id: name,
    object: 'model',
    created: started,
    owned_by: 'rocmforge',
    aliases: [name, ...aliases],
    tags,
    max_model_len: contextLength,
    meta: { n_vocab: vocabularySize, n_ctx: contextLength, n_params: Number(parameters) },
  };
}
